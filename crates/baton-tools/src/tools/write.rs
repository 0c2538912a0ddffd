//! `write`: a whole file, new or in place of another.

use std::io;

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::regular;
use crate::save::{change, diff, save};
use crate::snapshot::Old;
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool};

/// Writes files.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl TypedTool for Write {
    type Input = Input;
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || write(&input, &cx)).await
    }
}

fn write(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, cancel) = (&*cx.workspace, &cx.cancel);
    let shown = workspace.show(&workspace.resolve(&input.path));
    let spot = workspace.spot(&input.path, &cx.grant).map_err(|refusal| told("write", &shown, &refusal))?;
    let target = spot.path();
    let failed = |error: io::Error| format!("cannot write {shown}: {error}");
    let new = input.content.as_bytes();
    if new.len() as u64 > CONTENTS_BYTES_MAX {
        return Err(format!("the content is larger than {CONTENTS_BYTES_MAX} bytes: make the file with `bash`"));
    }
    let (done, old) = match spot.found() {
        Some(found) if found.metadata().is_dir() => return Err(format!("{shown} is a directory")),
        Some(found) if found.metadata().len() > CONTENTS_BYTES_MAX => {
            workspace.ledger().check(target, &Stamp::large(found.metadata()))?;
            workspace.snapshot().keep_not(target, "it was too large to keep");
            ("overwritten", None)
        }
        Some(found) => {
            let old = regular::read(found, CONTENTS_BYTES_MAX, cancel).map_err(failed)?;
            workspace.ledger().check(target, &Stamp::of(&old))?;
            workspace.snapshot().keep(workspace.temp(), target, &Old::File(&old, found.metadata()));
            ("overwritten", Some(old))
        }
        None => {
            workspace.snapshot().keep(workspace.temp(), target, &Old::Absent);
            ("created", Some(Vec::new()))
        }
    };
    // Who was told that this was given up must not find it done later.
    if cancel.is_cancelled() {
        return Err("cancelled; nothing was written".to_owned());
    }
    workspace.keep_files("write", std::iter::once(target))?;
    let saved = save(&spot, new);
    workspace.kept_files();
    saved.map_err(failed)?;
    workspace.ledger().note(target, Stamp::of(new));
    workspace.snapshot().changed(target, Some(Stamp::of(new)));
    let lines = input.content.lines().count();
    let outcome = Outcome::ok(format!("{shown} {done}: {lines} lines, {} bytes", new.len()))
        .with("path", target.display().to_string())
        .with("changes", vec![change(target, if done == "created" { "add" } else { "update" })]);
    Ok(match old {
        Some(old) => outcome.with("diff", diff(&shown, &old, new)),
        None => outcome,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;
    use crate::{Reach, Workspace};

    #[test]
    fn what_was_given_up_is_not_done_later() {
        let dir = tempfile::tempdir().unwrap();
        let cx = CallContext::alone(Workspace::new(dir.path(), dir.path(), Reach::Inside).unwrap());
        cx.cancel.cancel();
        let input = Input { path: "new".to_owned(), content: "x".to_owned() };
        assert_eq!(write(&input, &cx), Err("cancelled; nothing was written".to_owned()));
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn nothing_outside_or_protected_is_written_while_links_are_swapped() {
        const ROUNDS: usize = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("proj");
        fs::create_dir_all(root.join("dir")).unwrap();
        let others = [root.join("../evil"), root.join(".git/hooks")];
        for (other, link) in others.iter().zip(["out", "hooks"]) {
            fs::create_dir_all(other).unwrap();
            fs::write(other.join("f"), "theirs").unwrap();
            std::os::unix::fs::symlink(other, root.join(link)).unwrap();
        }
        let cx = CallContext::alone(Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap());
        let done = AtomicBool::new(false);
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut pause = 0;
                while !done.load(Ordering::Relaxed) {
                    for link in ["out", "out", "hooks", "hooks"] {
                        renameat_with(CWD, root.join("dir"), CWD, root.join(link), RenameFlags::EXCHANGE).unwrap();
                        // At all distances; whoever only renames keeps the kernel from everything else.
                        pause = (pause + 97) % 1_000;
                        (0..pause).for_each(|_| std::hint::spin_loop());
                    }
                }
            });
            for number in 0..ROUNDS {
                // Every other round makes a file, and at first a directory on the way to it.
                let path = if number % 2 == 0 { "dir/f".to_owned() } else { format!("dir/new{}/f", number % 100) };
                match write(&Input { path, content: "mine".to_owned() }, &cx) {
                    Ok(_) => written += 1,
                    Err(_) => refused += 1,
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        for other in others {
            let names: Vec<_> = fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!((names, fs::read(other.join("f")).unwrap()), (vec!["f".into()], b"theirs".to_vec()));
        }
        assert!(written > 100 && refused > 100, "{written} written, {refused} refused");
    }
}
