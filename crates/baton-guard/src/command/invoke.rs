//! Running a program: which one it really is, behind paths, wrappers and shells.

use std::path::Path;

use super::expand::{Arg, Known};
use super::table::{Entry, Wrapper};
use super::walk::{Flow, Walker};
use super::{About, Leaves, options};
use crate::decision::{Decision, Verdict};
use crate::path::escaped;

/// Directories whose programs are those of the system.
const SYSTEM: [&str; 9] = [
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/sbin",
    "/usr/sbin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
    "/usr/games",
];
/// The most programs that a wildcard in place of the program is tried as.
const CANDIDATES_MAX: usize = 64;

impl Walker<'_> {
    /// Judges a program with its arguments; the first is its name.
    pub(super) fn invoke(&mut self, args: &[Arg], input: &Flow) -> Flow {
        let Some(first) = args.first() else { return Flow::default() };
        if first.known != Known::Exactly || first.glob {
            self.ask("shell.unknown-program", "which program it runs is not known before it runs");
            if first.is_output && (self.substituted.decodes || self.substituted.text.is_some()) {
                self.deny("shell.encoded-program", "the name of the program is put together from encoded text");
            }
            if first.glob {
                let pattern = first.text.rsplit('/').next().unwrap_or_default();
                for name in self.table.names_like(pattern).into_iter().take(CANDIDATES_MAX) {
                    let mut guess = args.to_vec();
                    guess[0] = Arg { glob: false, ..first.with_text(name) };
                    self.program(&guess, input);
                }
                return Flow { any: true, reads: true, ..Flow::default() };
            }
        }
        self.program(args, input)
    }

    fn program(&mut self, args: &[Arg], input: &Flow) -> Flow {
        let first = &args[0];
        let name = match first.text.rsplit_once('/') {
            None => first.text.clone(),
            Some((dir, name)) => {
                let of_system = SYSTEM.contains(&dir) || dir.starts_with("/lib") || dir.starts_with("/usr/lib");
                if !of_system {
                    let path = self.absolute(&first.text);
                    if self.fetched.contains(&path) {
                        self.deny("remote.fetched", "it runs a file that it has just fetched");
                    }
                    self.ask("code.file", format!("it runs the file {}", escaped(&first.text)));
                }
                name.to_owned()
            }
        };
        if name.is_empty() {
            return Flow { any: true, ..Flow::default() };
        }
        if let Some(flow) = self.call(&name, args, input) {
            self.part(&name, args);
            return flow;
        }
        if self.table.is_shell(&name) && !matches!(args.get(1), Some(arg) if args.len() == 2 && arg.text == "--version")
        {
            return self.shell(&name, args, input);
        }
        if name == "env" {
            return self.env(args, input);
        }
        match self.table.wrapper(&name) {
            Some(wrapper) if wrapper.search => {
                self.search(&args[1..]);
                self.judge(&name, args, input)
            }
            Some(wrapper) => self.wrapped(&name, wrapper, args, input),
            None => self.judge(&name, args, input),
        }
    }

    /// Looks among a program's words for a command that must be denied: `docker run image rm -rf /`.
    fn search(&mut self, args: &[Arg]) {
        for (n, arg) in args.iter().enumerate() {
            let name = arg.text.rsplit('/').next().unwrap_or_default();
            let is_shell = self.table.is_shell(name);
            if n < 8
                && (is_shell
                    || matches!(
                        name,
                        "rm" | "curl" | "wget" | "sudo" | "dd" | "nc" | "python3" | "perl" | "env" | "find"
                    ))
            {
                let text: Vec<String> = args[n..].iter().map(|arg| quoted(&arg.text)).collect();
                if self.text_for_denials(&text.join(" ")) {
                    return;
                }
            }
        }
    }

    fn wrapped(&mut self, name: &str, wrapper: &Wrapper, args: &[Arg], input: &Flow) -> Flow {
        let part = self.part(name, args);
        if let Some(level) = wrapper.level {
            self.find(
                Decision::new(level, format!("wrapper.{name}"), wrapper.reason.clone()),
                About::Part(part),
                Leaves::Not,
            );
        }
        if name == "command" && args.get(1).is_some_and(|arg| matches!(arg.text.as_str(), "-v" | "-V")) {
            return Flow { any: true, ..Flow::default() };
        }
        let mut at = 1;
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            if !text.starts_with('-') || text.len() < 2 {
                break;
            }
            if arg.known != Known::Exactly {
                self.ask("shell.unknown-option", "an option is not known before it runs");
            }
            if wrapper.shell.as_deref() == Some(text) {
                break;
            }
            at += if wrapper.values.iter().any(|value| value == text) { 2 } else { 1 };
        }
        if let Some(option) = &wrapper.shell {
            let at = if option.is_empty() {
                Some(at)
            } else {
                args.iter().position(|arg| arg.text == *option).map(|at| at + 1)
            };
            if let Some(at) = at {
                let words = args.get(at..).unwrap_or_default();
                return self.shell_words(if name == "trap" { trapped(words) } else { words });
            }
        }
        at += wrapper.skip;
        let mut inner = args.get(at..).unwrap_or_default().to_vec();
        if inner.is_empty() {
            return Flow { any: true, reads: true, ..input.clone() };
        }
        if wrapper.open {
            let shell = inner[0].text.rsplit('/').next().unwrap_or_default();
            if self.table.is_shell(shell) {
                self.deny("wrapper.shell-of-unknown", "it feeds a shell with words that come from elsewhere");
            }
            inner.push(Arg { known: Known::Guess, ..Arg::exact("") });
            if input.secret {
                self.ask("wrapper.secret-words", "its words come from a file that may hold secrets");
            }
        }
        let flow = self.invoke(&inner, input);
        Flow { any: true, ..flow }
    }

    /// Words that are joined to a command line and run by a shell.
    pub(super) fn shell_words(&mut self, args: &[Arg]) -> Flow {
        let text: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
        if args.iter().any(|arg| arg.is_output) && (self.substituted.network || self.substituted.decodes) {
            self.deny("remote.code", "it runs what it fetches or decodes, unseen");
        }
        if args.iter().any(|arg| arg.known != Known::Exactly) {
            self.ask("shell.unknown-code", "which commands it runs is not known before it runs");
        }
        self.text(&text.join(" "))
    }

    fn shell(&mut self, name: &str, args: &[Arg], input: &Flow) -> Flow {
        let part = self.part(name, args);
        let mut at = 1;
        let (mut is_text, mut of_input) = (false, false);
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            if !(text.starts_with(['-', '+']) && text.len() > 1) {
                break;
            }
            at += 1;
            if arg.known != Known::Exactly {
                self.ask("shell.unknown-option", "an option is not known before it runs");
            }
            match text {
                "--" => break,
                "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" => {
                    if text.contains("file") {
                        self.deny("shell.start-file", "it runs a file before the command");
                    }
                    at += 1;
                }
                text if text.starts_with("--rcfile") || text.starts_with("--init-file") => {
                    self.deny("shell.start-file", "it runs a file before the command");
                }
                text if !text.starts_with("--") => {
                    is_text |= text[1..].contains('c');
                    of_input |= text[1..].contains('s');
                    // `-co pipefail`, `-xo ...`: the option takes the next word.
                    if text.len() > 2 && text.ends_with(['o', 'O']) {
                        at += 1;
                    }
                }
                _ => {}
            }
        }
        let operands = args.get(at..).unwrap_or_default();
        if let Some(code) = operands.first().filter(|_| is_text) {
            for (n, arg) in operands.iter().enumerate().skip(1) {
                let value = super::walk::Value { text: arg.text.clone(), known: Known::Guess };
                self.set(&(n - 1).to_string(), value);
            }
            return self.shell_words(std::slice::from_ref(code));
        }
        if let Some(script) = operands.first().filter(|_| !of_input) {
            if script.is_output
                && (self.substituted.network || self.substituted.decodes || self.substituted.text.is_some())
            {
                self.deny("remote.code", "it runs what it fetches or decodes, unseen");
            }
            let path = self.absolute(&script.text);
            if self.fetched.contains(&path) {
                self.deny("remote.fetched", "it runs a file that it has just fetched");
            }
            let is_input = matches!(script.text.as_str(), "-" | "/dev/stdin" | "/proc/self/fd/0" | "/dev/fd/0");
            if !is_input {
                if script.text != super::expand::PROCESS {
                    self.mention(&script.text, script.glob, baton_core::Access::Read);
                }
                if input.network || input.decodes {
                    self.deny("remote.pipe-to-shell", "it pipes what it fetches or decodes into a shell");
                }
                let reason = format!("it runs the script {}", escaped(&script.text));
                self.find(Decision::ask("code.script", reason), About::Part(part), Leaves::Not);
                if script.known != Known::Exactly {
                    self.ask("shell.unknown-path", "which file it uses is not known before it runs");
                }
                return Flow { any: true, reads: true, ..Flow::default() };
            }
        }
        self.code_from_input(input, part);
        Flow { any: true, reads: true, ..Flow::default() }
    }

    /// A shell or an interpreter that takes its program from its input.
    pub(super) fn code_from_input(&mut self, input: &Flow, part: usize) {
        self.find(Decision::ask("code.shell", "it starts a shell or an interpreter"), About::Part(part), Leaves::Not);
        if !input.any {
            return;
        }
        match &input.text {
            Some(text) if !input.network && !input.decodes && !input.reads => {
                let text = text.clone();
                self.ask("code.input", "it runs text that it is given as input");
                let before = self.count();
                self.text(&text);
                if self.count() > before {
                    self.deny("remote.hidden-code", "it feeds a shell with commands that do more than read");
                }
            }
            _ => self.deny("remote.pipe-to-shell", "it runs what another command prints, unseen"),
        }
    }

    /// How many things were found that are not simply allowed.
    fn count(&self) -> usize {
        self.findings().iter().filter(|found| found.decision.verdict > Verdict::Allow).count()
    }

    fn env(&mut self, args: &[Arg], input: &Flow) -> Flow {
        let mut at = 1;
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            if arg.known != Known::Exactly {
                self.ask("shell.unknown-option", "an option or variable is not known before it runs");
            }
            match text {
                "-u" | "--unset" | "--argv0" | "-a" => at += 2,
                "-C" | "--chdir" => {
                    if let Some(dir) = args.get(at + 1).cloned() {
                        self.change_dir(&dir);
                    }
                    at += 2;
                }
                "-S" | "--split-string" => {
                    let rest = args.get(at + 1..).unwrap_or_default().to_vec();
                    self.part("env", args);
                    self.ask("wrapper.env-split", "it splits a text into a command");
                    return self.shell_words(&[vec![Arg::exact("env")], rest].concat());
                }
                "--" => {
                    at += 1;
                    while let Some((name, _)) = args.get(at).and_then(|arg| arg.text.split_once('=')) {
                        self.judge_variable(name);
                        at += 1;
                    }
                    break;
                }
                text if text.starts_with("-S")
                    || text.starts_with("--split-string=")
                    || text.starts_with("-vS")
                    || text.starts_with("-iS") =>
                {
                    let code = text.split_once('S').map_or(text, |(_, code)| code);
                    let code = text.strip_prefix("--split-string=").unwrap_or(code).to_owned();
                    self.part("env", args);
                    self.ask("wrapper.env-split", "it splits a text into a command");
                    let rest = args.get(at + 1..).unwrap_or_default().to_vec();
                    return self.shell_words(&[vec![Arg::exact("env"), arg.with_text(code)], rest].concat());
                }
                text if text.starts_with("--chdir=") => {
                    let dir = arg.with_text(text.trim_start_matches("--chdir="));
                    self.change_dir(&dir);
                    at += 1;
                }
                text if text.starts_with('-') => at += 1,
                text if text.contains('=') => {
                    let name = text.split('=').next().unwrap_or_default().to_owned();
                    self.judge_variable(&name);
                    at += 1;
                }
                _ => break,
            }
        }
        let inner = args.get(at..).unwrap_or_default();
        if inner.is_empty() {
            let flow = self.judge("env", args, input);
            return Flow { secret: true, any: true, ..flow };
        }
        self.part("env", args);
        self.invoke(inner, input)
    }

    /// Goes to a directory.
    pub(super) fn change_dir(&mut self, dir: &Arg) {
        let path = self.absolute(&dir.text);
        if dir.known != Known::Exactly
            || dir.glob
            || dir.text == "-"
            || !self.cwd_known && !Path::new(&dir.text).is_absolute()
        {
            self.ask("shell.unknown-directory", "where it runs is not known before it runs");
            self.cwd_known = false;
        } else if self.scope.place(&path) != crate::path::Place::Inside {
            self.find(Decision::ask("scope.leaves", "it leaves the workspace"), About::Whole, Leaves::Beyond);
        }
        self.cwd = path;
    }

    /// Judges by the table.
    pub(super) fn judge(&mut self, name: &str, args: &[Arg], input: &Flow) -> Flow {
        let part = self.part(name, args);
        let texts: Vec<&str> = args.iter().skip(1).map(|arg| arg.text.as_str()).collect();
        if let Some(phrase) = self.table.phrase(name, &texts) {
            self.deny("secrets.command", format!("`{}` {}", phrase.words, phrase.reason));
        }
        let start = if name == "git" { self.git_globals(args) } else { 1 };
        if start > 1 {
            // Rules name what git does, wherever it does it.
            self.part_behind(name, args, start);
        }
        let words: Vec<&str> = args.iter().skip(start).map(|arg| arg.text.as_str()).collect();
        let Some(entry) = self.table.entry(name, &words) else {
            let reason = format!("{} is not a program that is known to be harmless", escaped(name));
            self.find(Decision::ask("program.unknown", reason), About::Part(part), Leaves::Not);
            for arg in &args[1..] {
                self.mentions_in(arg, false);
            }
            self.unknown_words(args);
            return Flow { any: true, reads: true, ..Flow::default() };
        };
        self.by_entry(entry, name, part, args, start, input)
    }

    fn by_entry(
        &mut self,
        entry: &'static Entry,
        name: &str,
        part: usize,
        args: &[Arg],
        start: usize,
        input: &Flow,
    ) -> Flow {
        let rest = args.get(start..).unwrap_or_default();
        let sub = rest.first().map_or("", |arg| arg.text.as_str());
        let words = options::sort(entry, name, sub, rest);
        self.entry(entry, name, part, args, &words, input)
    }
}

/// A word as it can stand in a command line.
pub(super) fn quoted(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,@%+~".contains(&byte)) && !text.is_empty() {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Of the words of `trap`, the code that is run later: the first, unless it means that nothing is.
fn trapped(words: &[Arg]) -> &[Arg] {
    match words {
        [action, _, ..] if action.known == Known::Exactly && matches!(action.text.as_str(), "" | "-") => &[],
        [_, _, ..] => &words[..1],
        [signal] if signal.text.chars().all(|c| c.is_ascii_alphanumeric()) => &[],
        words => words,
    }
}
