//! Scenarios of the whole binary: given files and a script, when a command runs, then these events,
//! files and exit codes. Real processes, real HTTP, real git; only the model is a script.

#![allow(missing_docs, reason = "tests speak by their names")]

mod support;

mod background;
mod bad_input;
mod cassettes;
mod command_line;
mod config;
mod crashes;
mod discipline;
mod disk;
mod exec;
mod guard;
mod guarded;
mod hosts;
mod interrupt;
mod keys;
mod limits;
mod network;
mod output_formats;
mod paths;
mod plan;
mod runs_commands;
mod runs_crashes;
mod runs_docs;
mod runs_input;
mod runs_liars;
mod runs_machine;
mod runs_rests;
mod runs_scope;
mod sandbox;
mod sessions;
mod tidy;
mod trust;
mod undo;
mod web;
mod wire_formats;
mod workflow;
