//! Checks of programs that delete, move, link, pack and look for files.

use std::path::Path;

use baton_core::Access;

use super::super::expand::{Arg, Known};
use super::super::walk::Walker;
use super::Call;
use crate::decision::Verdict;
use crate::path::{Place, escaped, shown};

impl Walker<'_> {
    pub(super) fn destroy_all(&mut self, call: &Call<'_>) {
        let mut operands = call.words.operands.clone();
        if call.name == "mv" {
            let target = if call.has(&["-t", "--target-directory"]) {
                call.words.values.first().cloned()
            } else {
                operands.pop()
            };
            if let Some(target) = target {
                if target.text == "/dev/null" {
                    self.deny("destroy.move-to-null", "what is moved there is gone");
                }
                self.mention(&target.text, target.glob, Access::Write);
            }
        }
        for operand in &operands {
            self.destroy(operand);
        }
    }

    /// Judges that something is deleted, emptied, moved away or made unusable.
    pub(super) fn destroy(&mut self, target: &Arg) {
        if target.text.is_empty() {
            return;
        }
        let path = self.absolute(&target.text);
        let in_temp = ["/tmp", "/var/tmp"].iter().any(|dir| path.starts_with(dir) && path != Path::new(dir))
            && !path.starts_with(&self.scope.home);
        let below_wildcard = target.glob && target.text.split('/').any(|part| part == "..");
        if self.scope.place(&path) != Place::Inside {
            if !in_temp || self.scope.root.starts_with(&path) {
                self.deny(
                    "destroy.outside",
                    format!("it destroys {}, which lies outside of the workspace", shown(&path)),
                );
            }
        } else if self.scope.root.starts_with(&path) || below_wildcard {
            self.deny("destroy.workspace", "it destroys the whole workspace");
        } else if target.glob && path.parent() == Some(&self.scope.root) && is_all(&path) {
            self.deny("destroy.workspace", "it destroys everything in the workspace");
        }
        self.mention(&target.text, target.glob, Access::Write);
    }

    pub(super) fn mode(&mut self, call: &Call<'_>) {
        let by_reference = call.words.options.iter().any(|option| option.starts_with("--ref"));
        let skip = usize::from(!by_reference);
        if let Some(mode) = call.words.operands.first().filter(|_| call.name == "chmod" && skip == 1) {
            let text = &mode.text;
            let lends = text.contains('s')
                || text.len() >= 4
                    && text.bytes().all(|b| b.is_ascii_digit())
                    && !text.trim_start_matches('0').is_empty()
                    && text.len() - 3 > 0
                    && text.as_bytes()[text.len() - 4] > b'1';
            if lends {
                self.deny("control.set-id", "it lends the owner's rights to whoever runs the file");
            }
        }
        for operand in call.words.operands.iter().skip(skip) {
            let path = self.absolute(&operand.text);
            if self.scope.place(&path) == Place::Inside {
                self.mention(&operand.text, operand.glob, Access::Write);
            } else {
                self.destroy(operand);
            }
        }
    }

    pub(super) fn dd(&mut self, call: &Call<'_>) {
        for arg in &call.words.operands {
            if let Some(target) = arg.text.strip_prefix("of=") {
                let target = arg.with_text(target);
                let path = self.absolute(&target.text);
                if self.scope.place(&path) != Place::Inside && target.text != "/dev/null" {
                    self.destroy(&target);
                }
                self.mention(&target.text, target.glob, Access::Write);
            }
        }
    }

    pub(super) fn link(&mut self, call: &Call<'_>) {
        let operands = &call.words.operands;
        let Some(target) = operands.first() else { return };
        let last = operands.last().filter(|_| operands.len() > 1);
        let name =
            last.map_or_else(|| target.text.rsplit('/').next().unwrap_or_default().to_owned(), |arg| arg.text.clone());
        let link = self.absolute(&name);
        let leads = match link.parent() {
            Some(dir) => crate::path::normalise(&dir.join(&target.text)),
            None => self.absolute(&target.text),
        };
        self.links.push((link, leads));
    }

    pub(super) fn tar(&mut self, call: &Call<'_>) {
        let mut letters = String::new();
        if let Some(first) = call.args.get(1).map(|arg| arg.text.as_str()).filter(|text| !text.starts_with('-')) {
            letters.push_str(first);
            if first.contains(['I', 'F']) && first.contains(['x', 'c', 't']) {
                self.deny("read.tar-list-I", "`tar -I` runs a program");
            }
        }
        letters.extend(call.words.options.iter().filter(|option| !option.starts_with("--")).map(|option| &option[1..]));
        let long = call.words.options.iter().any(|option| {
            ["--ext", "--get", "--cr", "--app", "--up", "--del", "--con", "--cat"]
                .iter()
                .any(|verb| option.starts_with(verb))
        });
        let lists = letters.contains('t') || call.has(&["--list"]);
        if long || !lists || letters.contains(['x', 'c', 'r', 'u', 'A']) {
            self.part_asks(call, "write.tar", "packs or unpacks files");
        }
        if call.words.values.iter().chain(&call.words.operands).any(|arg| arg.text.contains(':')) {
            self.part_asks(call, "net.tar", "can reach another machine");
        }
    }

    pub(super) fn find_files(&mut self, call: &Call<'_>) {
        let args = &call.args[1..];
        let is_start = |arg: &&Arg| {
            (!arg.text.starts_with('-') || matches!(arg.text.as_str(), "-H" | "-L" | "-P"))
                && !matches!(arg.text.as_str(), "(" | "!" | "\\(")
        };
        let mut starts: Vec<Arg> =
            args.iter().take_while(is_start).filter(|arg| !arg.text.starts_with('-')).cloned().collect();
        let tests = args.iter().any(|arg| {
            [
                "-name",
                "-iname",
                "-path",
                "-ipath",
                "-regex",
                "-type",
                "-newer",
                "-mtime",
                "-mmin",
                "-size",
                "-empty",
                "-wholename",
            ]
            .contains(&arg.text.as_str())
        });
        if starts.is_empty() {
            starts.push(Arg::exact("."));
        }
        let hit = |start: &Arg| {
            if tests { start.with_text(format!("{}/x", start.text.trim_end_matches('/'))) } else { start.clone() }
        };
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text.as_str() {
                "-delete" => {
                    self.part_asks(call, "find.delete", "deletes files");
                    for start in &starts {
                        self.destroy(&hit(start));
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    self.part_asks(call, "find.exec", "runs a program for what it finds");
                    let length = args[at..]
                        .iter()
                        .position(|arg| matches!(arg.text.as_str(), ";" | "+"))
                        .unwrap_or(args.len() - at);
                    let command = &args[at..at + length];
                    at += length;
                    let shell = command.first().map_or("", |arg| arg.text.rsplit('/').next().unwrap_or_default());
                    if self.table.is_shell(shell) || matches!(shell, "env" | "xargs" | "eval") && command.len() > 1 {
                        self.deny("find.shell", "it runs a shell for every file that it finds");
                    }
                    for start in &starts {
                        let start = hit(start);
                        let command: Vec<Arg> = command
                            .iter()
                            .map(|arg| {
                                if arg.text.contains("{}") {
                                    arg.with_text(arg.text.replace("{}", &start.text))
                                } else {
                                    arg.clone()
                                }
                            })
                            .collect();
                        self.invoke(&command, call.input);
                    }
                }
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    self.part_asks(call, "find.writes", "writes a file");
                    if let Some(target) = args.get(at).cloned() {
                        self.file(&target, Access::Write);
                    }
                }
                "-files0-from" => self.part_asks(call, "find.from-file", "reads names from a file"),
                text if text.starts_with("-f") && !matches!(text, "-fstype" | "-follow" | "-false") => {
                    self.part_asks(call, "find.unknown", "has an option that is not known");
                }
                _ => {}
            }
        }
        if args.iter().any(|arg| arg.glob && arg.text.starts_with(['*', '?', '['])) {
            self.ask("shell.glob-option", "a wildcard could stand for an option that does more");
        }
    }

    pub(super) fn fd(&mut self, call: &Call<'_>) {
        let args = &call.args[1..];
        let runs = |text: &str| {
            matches!(text, "-x" | "-X")
                || text.starts_with("--exec")
                || text.starts_with("--ex") && !text.starts_with("--exc") && !text.starts_with("--ext")
                || text.starts_with('-')
                    && !text.starts_with("--")
                    && text.len() > 2
                    && text.contains(['x', 'X'])
                    && !text.starts_with("-e")
                    && !text.starts_with("-E")
        };
        if let Some(at) = args.iter().position(|arg| runs(&arg.text)) {
            self.part_asks(call, "find.exec", "runs a program for what it finds");
            let mut command = args[at + 1..].to_vec();
            if let Some((_, program)) = args[at].text.split_once('=') {
                command.insert(0, args[at].with_text(program));
            }
            let shell = command.first().map_or("", |arg| arg.text.rsplit('/').next().unwrap_or_default());
            if self.table.is_shell(shell) {
                self.deny("find.shell", "it runs a shell for every file that it finds");
            }
            command.push(Arg { known: Known::Guess, ..Arg::exact("") });
            if command.len() > 1 {
                self.invoke(&command, call.input);
            }
        }
    }

    /// `source FILE`.
    pub(super) fn source(&mut self, call: &Call<'_>) {
        let Some(file) = call.args.get(1) else { return };
        let path = self.absolute(&file.text);
        if file.is_output && (self.substituted.network || self.substituted.decodes || self.substituted.any)
            || self.fetched.contains(&path)
        {
            self.deny("remote.code", format!("it runs {}, which it has just fetched or made", escaped(&file.text)));
        }
        if matches!(file.text.as_str(), "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            self.code_from_input(call.input, call.part);
        }
        if file.text != super::super::expand::PROCESS
            && self.scope.judge(&path, Access::Read, false).verdict > Verdict::Allow
        {
            self.mention(&file.text, file.glob, Access::Read);
        }
    }
}

/// Whether a wildcard stands for everything in its directory.
fn is_all(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        name.to_string_lossy().chars().all(|c| matches!(c, '*' | '.' | '?' | '[' | ']' | '!' | '^'))
    })
}
