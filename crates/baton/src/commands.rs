//! One file per command: its arguments, its help, and what it does.

pub mod audit;
pub mod auth;
pub mod completions;
pub mod config;
pub mod demo;
pub mod dev;
pub mod doctor;
pub mod exec;
pub mod guard;
pub mod init;
pub mod models;
pub mod run;
pub mod sandbox;
pub mod sessions;
pub mod trust;
pub mod undo;
pub mod workflow;
