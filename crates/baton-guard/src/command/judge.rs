//! Judging by the table: the level of a program, its options, and the files among its words.

use baton_core::Access;

use super::check;
use super::expand::{Arg, Known};
use super::options::{Effect, Words};
use super::table::{Class, Entry};
use super::walk::{Flow, Walker};
use super::{About, Finding, Leaves};
use crate::decision::{Decision, Verdict};
use crate::path::escaped;

impl Walker<'_> {
    pub(super) fn findings(&self) -> &[Finding] {
        &self.analysis().findings
    }

    /// Judges one program by its entry.
    pub(super) fn entry(
        &mut self,
        entry: &'static Entry,
        name: &str,
        part: usize,
        args: &[Arg],
        words: &Words<'_>,
        input: &Flow,
    ) -> Flow {
        let leaves = match entry.class {
            // What a sandbox holds can reach no process outside of it.
            Class::Control => Leaves::beyond(entry.id != "control.kill"),
            Class::Network if check::stays_here(words) => Leaves::Not,
            Class::Network if check::is_of_web(entry, words) => Leaves::ByWeb,
            Class::Network => Leaves::Beyond,
            _ => Leaves::Not,
        };
        let reason = format!("`{}` {}", escaped(name), entry.reason);
        self.find(Decision::new(entry.level, entry.id.clone(), reason), About::Part(part), leaves);
        if name == "git" && entry.class == Class::Write && self.scope.writable.is_some() {
            let sub = words.operands.first().map_or("", |arg| arg.text.as_str());
            let reason = format!("`git {}` changes the repository, and in a run only Baton does that", escaped(sub));
            self.find(Decision::deny("path.role", reason), About::Whole, Leaves::Not);
        }
        let asks = |walker: &mut Self, rule: String, reason: String| {
            walker.find(Decision::ask(rule, reason), About::Part(part), leaves);
        };
        for hit in &words.hits {
            let reason = format!("`{} {}` {}", escaped(name), hit.option, hit.does);
            let rule = format!("{}{}", entry.id, hit.option);
            match hit.effect {
                Effect::Deny => self.find(Decision::deny(rule, reason), About::Whole, Leaves::Beyond),
                Effect::Ask => asks(self, rule, reason),
                Effect::Write => {
                    asks(self, rule, reason);
                    if let Some(value) = hit.value.as_ref().filter(|value| value.text != "-") {
                        self.file(value, Access::Write);
                        let path = self.absolute(&value.text);
                        if entry.class == Class::Network {
                            self.fetched.push(path);
                        }
                    }
                }
            }
        }
        if entry.max.is_some_and(|max| words.operands.len() > max) {
            asks(
                self,
                format!("{}.operands", entry.id),
                format!("`{}` with so many words does more than read", escaped(name)),
            );
        }
        let flow = self.files(entry, name, words);
        self.unknown_words(args);
        if entry.has_options() && args.iter().skip(1).take_while(|arg| arg.text != "--").any(could_be_option) {
            self.ask("shell.glob-option", "a wildcard could stand for an option that does more");
        }
        let mut flow = self.check(entry, name, part, args, words, input, flow);
        flow.any = true;
        flow.network |= entry.class == Class::Network;
        flow.decodes |= entry.class == Class::Decode;
        flow.secret |= entry.id == "env.print";
        flow.reads |= !matches!(entry.class, Class::Text | Class::Network);
        flow
    }

    /// Words that are not known cannot be trusted to be harmless.
    pub(super) fn unknown_words(&mut self, args: &[Arg]) {
        if args.iter().skip(1).any(|arg| arg.known == Known::Guess) {
            self.ask("shell.unknown-word", "a word is not known before it runs");
        }
    }

    /// The files among a program's words.
    fn files(&mut self, entry: &Entry, name: &str, words: &Words<'_>) -> Flow {
        let mut flow = Flow::default();
        if entry.class == Class::Text {
            return flow;
        }
        let is_network = entry.class == Class::Network;
        let given = words.options.iter().any(|option| {
            option.starts_with("-e")
                || option.starts_with("-f")
                || option.starts_with("--regexp")
                || option.starts_with("--file")
        });
        let skip = usize::from(entry.class == Class::Pattern && !given && name != "fd");
        for value in words.values.iter().chain(words.operands.iter().skip(skip)) {
            flow.secret |= self.mentions_in(value, is_network);
        }
        if !self.cwd_known && words.operands.iter().any(|arg| !arg.text.starts_with('/')) {
            self.ask("shell.unknown-directory", "where it runs is not known before it runs");
        }
        let written: &[Arg] = match entry.class {
            // Its first word says what it does.
            Class::Write if name == "git" => words.operands.get(1..).unwrap_or_default(),
            Class::Write => &words.operands,
            Class::Copy => words.operands.last().map_or(&[], std::slice::from_ref),
            _ => &[],
        };
        for target in written {
            self.mention(&target.text, target.glob, Access::Write);
        }
        flow
    }

    /// Judges what a word names as a file, also behind `@`, `=` and `:`. True if it may hold secrets.
    pub(super) fn mentions_in(&mut self, arg: &Arg, is_network: bool) -> bool {
        let text = arg.text.as_str();
        if text.is_empty() || text.len() > 4096 || arg.is_output && text == super::expand::PROCESS {
            return false;
        }
        let mut candidates = vec![text];
        candidates.extend(text.split_once('=').map(|(_, value)| value));
        candidates.extend(text.split_once('@').map(|(_, value)| value));
        candidates.extend(text.strip_prefix("file://"));
        if !text.contains("://") {
            candidates.extend(text.split_once(':').map(|(before, _)| before));
            candidates.extend(text.split_once(':').map(|(_, after)| after));
        }
        if text.starts_with('-') && !text.starts_with("--") && text.is_char_boundary(2) && text.len() > 2 {
            candidates.push(&text[2..]);
        }
        let mut is_secret = false;
        for (n, candidate) in candidates.into_iter().enumerate() {
            let candidate = candidate.trim_start_matches(['@', '<']);
            if candidate.is_empty() || candidate.contains("://") || n > 0 && candidate.starts_with('-') {
                continue;
            }
            let candidate = self.guess_home(candidate);
            let Some(found) = self.mention(&candidate, arg.glob, Access::Read) else { continue };
            is_secret |= matches!(
                found.rule.as_ref(),
                "path.credentials" | "path.secret-file" | "path.process" | "path.control-socket"
            );
        }
        if is_secret && is_network {
            self.deny("exfil.file", format!("it sends {}, which may hold secrets, to another machine", escaped(text)));
        }
        is_secret
    }
}

fn could_be_option(arg: &Arg) -> bool {
    arg.glob && arg.text.starts_with(['*', '?', '['])
}

impl Entry {
    /// Whether it can run unasked at all.
    pub(super) fn is_harmless(&self) -> bool {
        self.level == Verdict::Allow
    }
}
