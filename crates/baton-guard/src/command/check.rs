//! Checks in code, for programs whose words are a language of their own; the table names them.

mod code;
mod files;
mod git;
mod network;

pub(super) use network::{is_of_web, stays_here};

use super::expand::{Arg, Known};
use super::options::Words;
use super::table::Entry;
use super::walk::{Flow, Walker};
use super::{About, Leaves};
use crate::decision::Decision;
use crate::path::escaped;

/// What a check looks at.
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) part: usize,
    pub(super) args: &'a [Arg],
    pub(super) words: &'a Words<'a>,
    pub(super) input: &'a Flow,
}

impl Call<'_> {
    /// Whether one of these options is there, alone or together with others behind one dash.
    fn has(&self, options: &[&str]) -> bool {
        self.words.options.iter().any(|given| {
            let name = given.split('=').next().unwrap_or_default();
            options.iter().any(|option| {
                name == *option || option.len() == 2 && !given.starts_with("--") && given[1..].contains(&option[1..])
            })
        })
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.args.iter().skip(1).map(|arg| arg.text.as_str())
    }
}

impl Walker<'_> {
    #[allow(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn check(
        &mut self,
        entry: &Entry,
        name: &str,
        part: usize,
        args: &[Arg],
        words: &Words<'_>,
        input: &Flow,
        mut flow: Flow,
    ) -> Flow {
        let call = Call { name, part, args, words, input };
        match entry.check.as_deref() {
            Some("printf") => flow.text = self.printf(&call),
            Some("subscript") => self.subscript(&call),
            Some("ps") => self.ps(&call),
            Some("builtin") => self.builtin(&call),
            Some("cd") => self.cd(&call),
            Some("kill") => self.kill(&call),
            Some("find") => self.find_files(&call),
            Some("fd") => self.fd(&call),
            Some("destroy") => self.destroy_all(&call),
            Some("mode") => self.mode(&call),
            Some("dd") => self.dd(&call),
            Some("link") => self.link(&call),
            Some("tar") => self.tar(&call),
            Some("unzip") if !call.has(&["-l", "-t", "-v", "-Z"]) => {
                self.part_asks(&call, "write.unzip", "unpacks files");
            }
            Some("sed") => {
                flow.secret |= self.sed(&call);
                flow.reads = true;
            }
            Some("jq")
                if call
                    .texts()
                    .any(|text| text.contains("env") || text.contains("ENV") || text.contains("input_filename")) =>
            {
                self.part_asks(&call, "read.jq-env", "shows variables, which may be secrets");
            }
            Some("awk") => self.awk(&call),
            Some("interpreter") => self.interpreter(&call),
            Some("source") => self.source(&call),
            Some("editor") => self.editor(&call),
            Some("sql") => self.refuse_texts(
                &call,
                &["\\!", ".shell", ".system", ".load", "load_extension", "program '", "outfile"],
                "code.sql-shell",
            ),
            Some("calculator") => self.refuse_texts(&call, &["!", "syscmd", "esyscmd"], "code.calculator-shell"),
            Some("shell-words") => {
                for arg in args.iter().skip(1).filter(|arg| arg.text.contains(' ')) {
                    self.text_for_denials(&arg.text);
                }
            }
            Some("git") => self.git(&call),
            Some("git-list") => self.git_list(&call),
            Some("git-config") => self.git_config(&call),
            Some("fetch") => self.fetch(&call),
            Some("network") => self.network(&call),
            Some("netpipe") => self.netpipe(&call),
            Some("ssh") => self.ssh(&call),
            Some("cloud") => self.cloud(&call),
            _ => {}
        }
        if entry.is_harmless() && matches!(name, "pwd") {
            flow.text = Some(self.cwd.to_string_lossy().into_owned());
        }
        flow
    }

    pub(super) fn part_asks(&mut self, call: &Call<'_>, rule: &'static str, does: &str) {
        let reason = format!("`{}` {does} here", escaped(call.name));
        self.find(Decision::ask(rule, reason), About::Part(call.part), Leaves::Not);
    }

    fn refuse_texts(&mut self, call: &Call<'_>, needles: &[&str], rule: &'static str) {
        if call.texts().any(|text| needles.iter().any(|needle| text.to_lowercase().contains(needle))) {
            self.deny(rule, format!("`{}` is told to run a program", escaped(call.name)));
        }
    }

    /// What `echo` and `printf` print, where it is simple.
    fn printf(&mut self, call: &Call<'_>) -> Option<String> {
        let mut words: Vec<&str> = call.texts().collect();
        if call.name == "printf" && words.first() == Some(&"-v") {
            self.subscript(call);
            let name = words.get(1).map(|name| (*name).to_owned()).unwrap_or_default();
            self.judge_variable(&name);
            self.part_asks(call, "env.printf", "sets a variable");
            return None;
        }
        if call.args.iter().any(|arg| arg.known == Known::Guess && arg.text.is_empty()) {
            return None;
        }
        let escapes =
            call.name == "printf" || words.first().is_some_and(|word| word.starts_with('-') && word.contains('e'));
        if call.name == "echo" {
            while words.first().is_some_and(|word| matches!(*word, "-e" | "-n" | "-E" | "-ne" | "-en")) {
                words.remove(0);
            }
        }
        let text = words.join(" ");
        Some(if escapes { unescape(&text) } else { text })
    }

    /// A subscript in a name runs what stands in it, also out of quotes.
    fn subscript(&mut self, call: &Call<'_>) {
        let runs =
            |text: &str| text.contains('[') && (text.contains("$(") || text.contains('`') || text.contains("${"));
        if call.args.iter().skip(1).any(|arg| runs(&arg.text)) {
            self.deny("shell.hidden-substitution", "a subscript runs a command that stands in a quoted text");
        }
        if call.args.iter().skip(1).any(|arg| arg.known == Known::Guess)
            && call.texts().any(|text| text == "-v" || text.starts_with("-eq"))
        {
            self.ask("shell.unknown-word", "a word is not known before it runs");
        }
    }

    fn ps(&mut self, call: &Call<'_>) {
        if call.name == "ps" && call.texts().any(|text| !text.starts_with('-') && text.contains('e'))
            || call.has(&["-E"])
        {
            self.part_asks(call, "env.ps", "shows the variables of processes, which may be secrets");
        }
        if call.texts().any(|text| text.contains("baton")) {
            self.looks_for_baton = true;
        }
    }

    fn builtin(&mut self, call: &Call<'_>) {
        self.subscript(call);
        if matches!(call.name, "env" | "printenv") {
            return;
        }
        for text in call.texts().map(str::to_owned).collect::<Vec<_>>() {
            if call.name == "alias" {
                if let Some((_, value)) = text.split_once('=') {
                    self.text_for_denials(value);
                }
                continue;
            }
            let name = text.split(['=', '[']).next().unwrap_or_default().trim_end_matches('+');
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name && call.name != "set" && !matches!(call.name, "ulimit" | "shopt" | "unalias" | "enable") {
                self.judge_variable(name);
            }
            if call.name == "let" && (text.contains("$(") || text.contains('`')) {
                self.deny("shell.hidden-substitution", "arithmetic runs a command that stands in a quoted text");
            }
        }
    }

    fn cd(&mut self, call: &Call<'_>) {
        let home = Arg::exact(self.scope.home.to_string_lossy());
        let dir = call.words.operands.first().cloned().unwrap_or(home);
        self.change_dir(&dir);
    }

    fn kill(&mut self, call: &Call<'_>) {
        let pids: Vec<&str> = call.texts().skip_while(|text| text.starts_with('-') && *text != "--").collect();
        let names_baton = call.texts().any(|text| text.contains("baton"));
        let all = pids.iter().any(|pid| matches!(*pid, "-1" | "1" | "0"))
            || call.name.starts_with("killall5")
            || call.texts().filter(|text| *text == "-1").count() > 0 && call.args.len() > 2;
        let by_output = call.args.iter().any(|arg| arg.is_output) && self.looks_for_baton;
        if names_baton || by_output {
            self.deny("control.kill-baton", "it ends Baton itself");
        } else if all {
            self.deny("control.kill-all", "it ends every process");
        }
    }
}

/// Backslash sequences as `printf` and `echo -e` read them.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = |from: usize, radix: u32, max: usize| {
            bytes[from..].iter().take(max).take_while(|byte| char::from(**byte).is_digit(radix)).count()
        };
        let number = |from: usize, radix: u32, length: usize| {
            text.get(from..from + length)
                .and_then(|digits| u32::from_str_radix(digits, radix).ok())
                .map_or(0, |n| (n & 0xff) as u8)
        };
        let (byte, next) = match bytes[at + 1] {
            b'x' => {
                let length = digits(at + 2, 16, 2);
                (number(at + 2, 16, length), at + 2 + length)
            }
            b'0'..=b'7' => {
                let length = digits(at + 1, 8, 4);
                (number(at + 1, 8, length), at + 1 + length)
            }
            b'n' => (b'\n', at + 2),
            b't' => (b'\t', at + 2),
            other => (other, at + 2),
        };
        out.push(byte);
        at = next;
    }
    String::from_utf8_lossy(&out).into_owned()
}
