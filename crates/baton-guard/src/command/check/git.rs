//! Checks of git: global options, settings that run programs, addresses, and forms that only list.

use super::super::expand::Arg;
use super::super::walk::Walker;
use super::Call;
use crate::path::escaped;

impl Walker<'_> {
    /// Judges the options before git's subcommand and says where that stands.
    pub(in super::super) fn git_globals(&mut self, args: &[Arg]) -> usize {
        let mut at = 1;
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            let next = args.get(at + 1).cloned();
            match text {
                "-c" => {
                    if let Some(setting) = &next {
                        self.git_setting(&setting.text);
                    }
                    at += 2;
                }
                "-C" => {
                    if let Some(dir) = &next {
                        self.mention(&dir.text, dir.glob, baton_core::Access::Read);
                    }
                    at += 2;
                }
                "--config-env" | "--exec-path" => {
                    self.deny("git.config-option", format!("`git {text}` sets what git runs"));
                    at += 2;
                }
                "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" | "--attr-source" => {
                    self.ask("git.other-directory", format!("`git {text}` makes git obey other settings"));
                    at += 2;
                }
                "-p" | "--paginate" => {
                    self.ask("git.pager", "it starts the pager");
                    at += 1;
                }
                text if text.starts_with("--config-env") || text.starts_with("--exec-path=") => {
                    self.deny("git.config-option", "it sets what git runs");
                    at += 1;
                }
                text if text.starts_with("--git-dir=") || text.starts_with("--work-tree=") => {
                    self.ask("git.other-directory", "it makes git obey other settings");
                    at += 1;
                }
                text if text.starts_with("-c") && text.len() > 2 => {
                    self.git_setting(&text[2..]);
                    at += 1;
                }
                "--version" => break,
                text if text.starts_with('-') => at += 1,
                _ => break,
            }
        }
        at
    }

    fn git_setting(&mut self, setting: &str) {
        let key = setting.split('=').next().unwrap_or_default();
        if self.table.git_setting_runs(key) {
            self.deny("git.setting", format!("the setting {} makes git run or load something", escaped(key)));
        } else if ![
            "color.",
            "core.quotepath",
            "log.",
            "diff.noprefix",
            "user.",
            "advice.",
            "column.",
            "core.abbrev",
            "status.",
        ]
        .iter()
        .any(|safe| key.to_lowercase().starts_with(safe))
        {
            self.ask("git.setting-unknown", format!("it changes the setting {}", escaped(key)));
        }
    }

    pub(super) fn git(&mut self, call: &Call<'_>) {
        let sub = call.words.operands.first().map_or("", |arg| arg.text.as_str());
        let reaches =
            matches!(sub, "push" | "pull" | "fetch" | "clone" | "ls-remote" | "remote" | "submodule" | "archive");
        for arg in &call.args[1..] {
            let text = arg.text.trim_start_matches('-');
            if text.starts_with("ext::") || text.starts_with("fd::") || text.contains("=ext::") {
                self.deny("git.ext-address", "an address of this form runs a program");
            }
            if sub == "push"
                && !arg.text.starts_with('-')
                && (text.contains("://") || text.contains('@') && text.contains(':'))
            {
                self.deny("exfil.git-push", "it sends the repository to an address instead of a known remote");
            }
            if reaches && arg.is_output && self.substituted.reads {
                self.deny("exfil.output", "it sends the output of a command to another machine");
            }
            if let Some((_, path)) = text.split_once(':').filter(|_| matches!(sub, "show" | "cat-file" | "diff"))
                && !path.is_empty()
            {
                let path = path.to_owned();
                self.mention(&path, false, baton_core::Access::Read);
            }
        }
        if sub == "grep"
            && call.words.options.iter().any(|option| option.starts_with("-O") || option.starts_with("--open"))
        {
            self.deny("git.grep-pager", "it opens files in a program");
        }
        if sub == "bisect" && call.texts().any(|text| text == "run") {
            let command: Vec<Arg> = call.args.iter().skip_while(|arg| arg.text != "run").skip(1).cloned().collect();
            self.invoke(&command, call.input);
        }
        if matches!(sub, "show" | "log" | "diff" | "cat-file" | "blame" | "grep") {
            for arg in call.words.operands.iter().skip(1).filter(|arg| arg.text.starts_with(['/', '.'])) {
                self.mention(&arg.text, arg.glob, baton_core::Access::Read);
            }
        }
    }

    pub(super) fn git_list(&mut self, call: &Call<'_>) {
        const LISTING: [&str; 24] = [
            "-a",
            "-r",
            "-v",
            "-vv",
            "-l",
            "-i",
            "--list",
            "--all",
            "--remotes",
            "--show-current",
            "--contains",
            "--no-contains",
            "--merged",
            "--no-merged",
            "--sort",
            "--format",
            "--column",
            "--no-column",
            "--color",
            "--no-color",
            "--points-at",
            "--verbose",
            "--abbrev",
            "-n",
        ];
        let sub = call.words.operands.first().map_or("", |arg| arg.text.as_str());
        let options = &call.words.options;
        let known = options.iter().all(|option| {
            let name = option.split('=').next().unwrap_or_default();
            LISTING.contains(&name) || name.starts_with("-n") || matches!(name, "-av" | "-ra" | "-avv" | "-rv")
        });
        let lists = options.iter().any(|option| {
            matches!(
                option.split('=').next().unwrap_or_default(),
                "-l" | "--list" | "--contains" | "--no-contains" | "--merged" | "--no-merged" | "--points-at"
            )
        });
        let operands = call.words.operands.len() - 1;
        if !known || operands > 0 && !(lists && sub != "remote") {
            self.part_asks(call, "git.change-refs", "changes the repository");
        }
    }

    pub(super) fn git_config(&mut self, call: &Call<'_>) {
        let mut operands = call.words.operands.iter().skip(1).map(|arg| arg.text.as_str());
        let mut key = operands.next().unwrap_or_default().to_owned();
        if matches!(key.as_str(), "set" | "unset" | "rename-section" | "remove-section" | "edit") {
            operands.next().unwrap_or_default().clone_into(&mut key);
        }
        // With a value, or an option that changes it, the setting is written.
        if self.table.git_setting_runs(&key) || key.starts_with('-') {
            self.deny("git.setting", format!("the setting {} makes git run or load something", escaped(&key)));
        }
        if call.texts().any(|text| self.table.git_setting_runs(text) && text.contains('.')) {
            self.deny("git.setting", "a setting of this name makes git run or load something");
        }
    }
}
