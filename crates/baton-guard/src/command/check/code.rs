//! Checks of program texts: sed, awk, interpreters, editors.

use baton_core::Access;

use super::super::expand::{Arg, Known};
use super::super::walk::Walker;
use super::Call;
use crate::decision::Verdict;
use crate::path::{Place, escaped};

/// The longest program text that is searched.
const TEXT_MAX: usize = 64 * 1024;
/// The most strings of a program text that are looked at as commands.
const STRINGS_MAX: usize = 256;

impl Walker<'_> {
    /// True if it reads what may be secrets.
    pub(super) fn sed(&mut self, call: &Call<'_>) -> bool {
        let mut scripts: Vec<Arg> = Vec::new();
        let mut files: Vec<Arg> = Vec::new();
        let mut in_place = false;
        let mut rest = call.args.iter().skip(1);
        while let Some(arg) = rest.next() {
            let text = arg.text.as_str();
            if text == "--" {
                files.extend(rest.cloned());
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                if name.starts_with('i') {
                    in_place = true;
                } else if "expression".starts_with(name) && name.starts_with("ex") {
                    scripts.extend(value.map(|value| arg.with_text(value)).or_else(|| rest.next().cloned()));
                } else if "file".starts_with(name) && name.starts_with("fi") {
                    self.part_asks(call, "sed.file", "runs a script from a file");
                    if value.is_none() {
                        rest.next();
                    }
                }
                continue;
            }
            if !text.starts_with('-') || text.len() == 1 {
                files.push(arg.clone());
                continue;
            }
            for (at, letter) in text.char_indices().skip(1) {
                let behind = &text[at + letter.len_utf8()..];
                match letter {
                    'i' | 'I' => {
                        in_place = true;
                        break;
                    }
                    'e' => {
                        scripts.extend(if behind.is_empty() {
                            rest.next().cloned()
                        } else {
                            Some(arg.with_text(behind))
                        });
                        break;
                    }
                    'f' => {
                        self.part_asks(call, "sed.file", "runs a script from a file");
                        if behind.is_empty() {
                            rest.next();
                        }
                        break;
                    }
                    'l' => break,
                    _ => {}
                }
            }
        }
        if scripts.is_empty() && !files.is_empty() {
            scripts.push(files.remove(0));
        }
        for script in &scripts {
            self.sed_script(call, script);
        }
        if in_place {
            self.part_asks(call, "sed.in-place", "changes files");
            for file in &files {
                self.mention(&file.text, file.glob, Access::Write);
            }
        }
        files.iter().filter(|file| self.mentions_in(file, false)).count() > 0
    }

    fn sed_script(&mut self, call: &Call<'_>, script: &Arg) {
        match sed_effects(&script.text) {
            None => self.part_asks(call, "sed.unclear", "has a script that is not understood"),
            Some(effects) => {
                for effect in effects {
                    match effect {
                        SedEffect::Runs => self.deny("sed.runs", "the script of sed runs a program"),
                        SedEffect::Writes(file) => {
                            self.part_asks(call, "sed.writes", "writes a file");
                            if !file.starts_with("/dev/std") {
                                self.mention(&file, false, Access::Write);
                            }
                        }
                        SedEffect::Reads(file) => {
                            if self.mention(&file, false, Access::Read).is_none() && file.starts_with('/') {
                                self.part_asks(call, "sed.reads", "reads another file");
                            }
                        }
                    }
                }
            }
        }
        if script.known != Known::Exactly {
            self.part_asks(call, "sed.unclear", "has a script that is not known");
        }
    }

    pub(super) fn awk(&mut self, call: &Call<'_>) {
        let runs = |text: &str| {
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            text.contains("system(")
                || text.contains("|\"")
                || text.contains("|&")
                || text.contains("\"|getline")
                || text.contains("|getline")
                || text.contains("@load")
                || text.contains("/inet/")
        };
        if call.texts().any(runs) {
            self.deny("code.awk-shell", "the program of awk runs other programs");
        }
        for text in call.texts().map(str::to_owned).collect::<Vec<_>>() {
            self.program_text(&text);
        }
    }

    pub(super) fn interpreter(&mut self, call: &Call<'_>) {
        let has_text = call.words.options.iter().any(|option| {
            !option.starts_with("--") && option.contains(['c', 'e', 'E', 'r', 'p', 'm'])
                || option.starts_with("--eval")
                || option.starts_with("--print")
                || option.starts_with("--command")
        });
        for text in call.texts().map(str::to_owned).collect::<Vec<_>>() {
            self.program_text(&text);
        }
        let from_output =
            call.args.iter().any(|arg| arg.is_output) && (self.substituted.network || self.substituted.decodes);
        let script = call.words.operands.iter().find(|arg| arg.text != "-");
        if from_output || script.is_some_and(|arg| self.fetched.contains(&self.absolute(&arg.text))) {
            self.deny("remote.code", "it runs what it fetches or decodes, unseen");
        }
        if script.is_none() && !has_text && call.input.any {
            match call.input.text.clone().filter(|_| !call.input.network && !call.input.decodes && !call.input.reads) {
                Some(text) => self.program_text(&text),
                None => self.deny("remote.pipe-to-shell", "it runs what another command prints, unseen"),
            }
        }
        if call.has(&["-i"]) {
            // The first is the program: a file, or the text that an option ends with.
            let ends_with_text = call.words.options.iter().any(|option| option.ends_with(['e', 'E']));
            for file in call.words.operands.iter().skip(usize::from(!has_text || ends_with_text)) {
                self.mention(&file.text, file.glob, Access::Write);
            }
        }
    }

    /// Searches a program text for what must be denied.
    fn program_text(&mut self, text: &str) {
        if text.len() > TEXT_MAX {
            self.too_complex();
            return;
        }
        let lower = text.to_lowercase();
        let has = |needles: &[&str]| needles.iter().any(|needle| lower.contains(needle));
        let fetches = has(&[
            "urlopen",
            "requests.",
            "http.client",
            "urllib",
            "net::http",
            "lwp::",
            "fetch(",
            "https.get",
            "http.get",
            "open-uri",
            "httpx",
            "curl",
            "wget",
            "file_get_contents(\"http",
            "file_get_contents('http",
        ]);
        let runs = has(&[
            "exec(",
            "eval(",
            "eval ",
            "system",
            "popen",
            "subprocess",
            "child_process",
            "spawn",
            "pty.",
            "`",
            "%x",
            "qx",
            "instance_eval",
            "os.exec",
            "dup2",
            "compile(",
        ]);
        let decodes = has(&[
            "base64",
            "b64decode",
            "fromcharcode",
            "unpack",
            "marshal",
            "zlib",
            "codecs",
            "\\x",
            "atob",
            "buffer.from",
        ]);
        if runs && (fetches || decodes || has(&["socket"])) || has(&["/dev/tcp/"]) {
            self.deny("remote.code", "the program text runs what it fetches or decodes");
        }
        let is_break = |c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | '(' | ')' | ';' | '<' | '>' | '|' | '=')
        };
        let mut outside = has(&[
            "homedir",
            "expanduser",
            "path.home",
            "dir.home",
            "env{home}",
            "env['home']",
            "env[\"home\"]",
            "env.home",
            "getenv(\"home",
            "getenv('home",
        ]);
        for token in text
            .split(is_break)
            .filter(|token| token.contains('/') || token.starts_with(['~', '.']) || token.starts_with("id_"))
        {
            let path = self.absolute(&self.guess_home(token));
            let decision = self.scope.judge(&path, Access::Read, token.contains('*'));
            if decision.verdict == Verdict::Deny && token.len() > 2 {
                self.deny(
                    "exfil.program-text",
                    format!("the program text names {}: {}", escaped(token), decision.reason),
                );
            }
            outside |= (token.starts_with('/') || token.starts_with('~'))
                && self.scope.place(&path) == Place::Outside
                && !token.starts_with("//");
        }
        let destroys = has(&[
            "unlink",
            "rmtree",
            "remove_tree",
            "rmdir",
            "rmsync",
            "rm_rf",
            "rm_r",
            "remove(",
            "removesync",
            "file.delete",
            "fileutils",
            "truncate",
            "rimraf",
            "fs.rm",
            "deltree",
            "removeall",
            "delete(",
        ]);
        if destroys && outside {
            self.deny("destroy.program-text", "the program text deletes files outside of the workspace");
        }
        if fetches && has(&["environ", "process.env", "%env", "env.to", "getenv"]) {
            self.deny("exfil.program-text", "the program text sends variables, which may be secrets");
        }
        for string in strings(text).take(STRINGS_MAX) {
            if self.is_denied() {
                break;
            }
            if string.len() > 3 && string.contains([' ', '/']) {
                self.text_for_denials(&string);
            }
        }
        // Lists of words that are run without a shell: ['rm', '-rf', '/'].
        let words: Vec<String> = strings(text).take(STRINGS_MAX).collect();
        if words.len() > 1 && !self.is_denied() {
            let line: Vec<String> =
                words.iter().map(|word| super::super::invoke::quoted(&self.guess_home(word))).collect();
            self.text_for_denials(&line.join(" "));
        }
    }

    pub(super) fn editor(&mut self, call: &Call<'_>) {
        let mut is_command = false;
        for text in call.texts() {
            let inline = text.starts_with('+')
                || text.starts_with("--eval")
                || text.starts_with("--cmd")
                || text.starts_with("-c") && text.len() > 2;
            let runs = [
                "!",
                "system(",
                "shell",
                "eval",
                "call-process",
                "start-process",
                "py",
                "lua",
                "terminal",
                ":so",
                "source",
            ]
            .iter()
            .any(|word| text.contains(word));
            if (is_command || inline) && runs
                || matches!(text, "--eval" | "-S" | "--script" | "-l" | "--load")
                || text.starts_with("--eval=")
            {
                self.deny("code.editor-shell", "the editor is told to run a program");
                return;
            }
            is_command = matches!(text, "-c" | "--cmd" | "-s" | "-es" | "-e" | "-sc" | "-ec" | "-f" | "-u" | "-Es");
        }
        if matches!(call.name, "ed" | "ex" | "vi" | "vim")
            && call.input.text.as_ref().is_some_and(|text| text.contains('!'))
        {
            self.deny("code.editor-shell", "the editor is told to run a program");
        }
        for arg in &call.words.operands {
            self.mention(&arg.text, arg.glob, Access::Write);
        }
    }
}

/// The quoted strings of a program text.
fn strings(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(['"', '\'', '`'])?;
        let quote = rest[start..].chars().next()?;
        let inner = &rest[start + 1..];
        let end = inner.find(quote).unwrap_or(inner.len());
        let found = inner[..end].to_owned();
        rest = inner.get(end + 1..).unwrap_or_default();
        Some(found)
    })
}

/// What a sed script does besides printing.
#[derive(Debug, PartialEq, Eq)]
enum SedEffect {
    Runs,
    Writes(String),
    Reads(String),
}

/// Reads a sed script; none if it is not understood.
fn sed_effects(script: &str) -> Option<Vec<SedEffect>> {
    let mut effects = Vec::new();
    let chars: Vec<char> = script.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            c if c.is_whitespace() || matches!(c, ';' | '{' | '}' | '!') => at += 1,
            '0'..='9' | '$' | ',' | '+' | '~' => at += 1,
            '#' => at = line_end(&chars, at),
            '/' => at = delimited(&chars, at + 1, '/')?,
            '\\' => {
                let delimiter = *chars.get(at + 1)?;
                at = delimited(&chars, at + 2, delimiter)?;
            }
            'I' | 'M' if at > 0 && matches!(chars[at - 1], '/') => at += 1,
            's' | 'y' => {
                let is_s = chars[at] == 's';
                let delimiter = *chars.get(at + 1)?;
                at = delimited(&chars, at + 2, delimiter)?;
                at = delimited(&chars, at, delimiter)?;
                while is_s && at < chars.len() {
                    match chars[at] {
                        'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => at += 1,
                        'e' => {
                            effects.push(SedEffect::Runs);
                            at += 1;
                        }
                        'w' => {
                            let end = line_end(&chars, at);
                            effects.push(SedEffect::Writes(
                                chars[at + 1..end].iter().collect::<String>().trim().to_owned(),
                            ));
                            at = end;
                        }
                        _ => break,
                    }
                }
            }
            'e' => {
                effects.push(SedEffect::Runs);
                at = line_end(&chars, at);
            }
            command @ ('w' | 'W' | 'r' | 'R') => {
                let end = line_end(&chars, at);
                let file = chars[at + 1..end].iter().collect::<String>().trim().to_owned();
                effects.push(if command.eq_ignore_ascii_case(&'w') {
                    SedEffect::Writes(file)
                } else {
                    SedEffect::Reads(file)
                });
                at = end;
            }
            'a' | 'i' | 'c' => {
                // Its text goes to the end of the line, and on where that ends with a backslash.
                at = line_end(&chars, at);
                while at > 0 && chars.get(at - 1) == Some(&'\\') && at < chars.len() {
                    at = line_end(&chars, at + 1);
                }
            }
            ':' | 'b' | 't' | 'T' => {
                while at < chars.len() && !matches!(chars[at], ';' | '\n' | '}') {
                    at += 1;
                }
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'q' | 'Q' | 'x' | '=' | 'l' | 'z' | 'F' => {
                at += 1;
            }
            _ => return None,
        }
    }
    Some(effects)
}

fn line_end(chars: &[char], from: usize) -> usize {
    chars[from.min(chars.len())..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| from + length)
}

/// Where the text goes on behind the next delimiter that is not escaped and not in brackets.
fn delimited(chars: &[char], from: usize, delimiter: char) -> Option<usize> {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == delimiter => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_scripts_tell_what_they_do() {
        let none = |script| assert_eq!(sed_effects(script), Some(vec![]), "{script}");
        for script in [
            "10,30p",
            "/w/p",
            "s/a/b/gp",
            "s|e|w|",
            "$!N;P;D",
            "/^fn/,/^}/p",
            "s/x\\/e/y/",
            "y/abc/def/",
            ":a;N;ba",
            "1d;$d",
        ] {
            none(script);
        }
        for script in ["s/x/id/e", "1e id", "e", "s/a/b/ge"] {
            assert_eq!(sed_effects(script), Some(vec![SedEffect::Runs]), "{script}");
        }
        assert_eq!(sed_effects("w out.txt"), Some(vec![SedEffect::Writes("out.txt".to_owned())]));
        assert_eq!(sed_effects("s/a/b/w out"), Some(vec![SedEffect::Writes("out".to_owned())]));
        assert_eq!(sed_effects("s/a"), None);
    }
}
