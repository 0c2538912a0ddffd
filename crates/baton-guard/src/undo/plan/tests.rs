//! Plans on a small model of a disk: what they promise, whatever was changed and by whom.

use proptest::prelude::*;

use super::*;
use crate::undo::state::Hash;

type Disk = BTreeMap<PathBuf, State>;

fn file(bytes: &str) -> State {
    State::File(FileState { hash: Some(Hash::of(bytes.as_bytes())), len: 1, mode: 0o644, sense: None, written: None })
}

impl Now for Disk {
    fn state(&self, path: &Path) -> State {
        if path.parent().is_none() { State::Dir { mode: 0o755 } } else { at(self, path) }
    }

    fn inside(&self, dir: &Path) -> Vec<PathBuf> {
        self.keys().filter(|path| path.parent() == Some(dir)).cloned().collect()
    }
}

fn at(disk: &Disk, path: &Path) -> State {
    disk.get(path).cloned().unwrap_or(State::Absent)
}

/// Sets a path as a person would: what is in the way goes, directories are made.
fn set(disk: &mut Disk, path: &Path, state: State) {
    for dir in path.ancestors().skip(1).filter(|dir| dir.parent().is_some()) {
        if state != State::Absent && !matches!(disk.get(dir), Some(State::Dir { .. })) {
            disk.insert(dir.to_owned(), State::Dir { mode: 0o755 });
        }
    }
    if !matches!((disk.get(path), &state), (Some(State::Dir { .. }), State::Dir { .. })) {
        disk.retain(|below, _| below == path || !below.starts_with(path));
    }
    if state == State::Absent {
        disk.remove(path)
    } else {
        disk.insert(path.to_owned(), state)
    };
}

fn difference(before: &Disk, after: &Disk) -> Vec<Change> {
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let change = |path: &&PathBuf| Change { path: (*path).clone(), before: at(before, path), after: at(after, path) };
    paths.iter().map(change).filter(|change| change.before != change.after).collect()
}

/// Carries out steps as the kernel would: it refuses what does not fit.
fn run(disk: &mut Disk, steps: &[Step]) -> Result<(), String> {
    for step in steps {
        // Directories that are missing are made.
        let has_dir = |disk: &Disk, path: &Path| {
            path.ancestors().skip(1).all(|dir| matches!(disk.get(dir), Some(State::Dir { .. }) | None))
        };
        let fails = || format!("{step:?}");
        match step {
            Step::Remove(path) => match disk.remove(path) {
                Some(State::Dir { .. }) | None => return Err(fails()),
                Some(_) => {}
            },
            Step::RemoveDir(path) => {
                let is_empty = !disk.keys().any(|below| below != path && below.starts_with(path));
                match disk.get(path) {
                    Some(State::Dir { .. }) if is_empty => drop(disk.remove(path)),
                    // Others have put something there: it stays.
                    Some(State::Dir { .. }) => {}
                    _ => return Err(fails()),
                }
            }
            Step::MakeDir(path) if has_dir(disk, path) && !disk.contains_key(path) => {
                disk.insert(path.clone(), State::Dir { mode: 0o700 });
            }
            Step::Put(path, file) if has_dir(disk, path) && !matches!(disk.get(path), Some(State::Dir { .. })) => {
                disk.insert(path.clone(), State::File(file.clone()));
            }
            Step::Link(path, to) if has_dir(disk, path) && !disk.contains_key(path) => {
                disk.insert(path.clone(), State::Link { to: to.clone() });
            }
            Step::Mode(path, mode) if matches!(disk.get(path), Some(State::Dir { .. })) => {
                disk.insert(path.clone(), State::Dir { mode: *mode });
            }
            _ => return Err(fails()),
        }
    }
    Ok(())
}

fn some_path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec(proptest::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| names.iter().fold(PathBuf::from("/"), |path, name| path.join(name)))
}

fn some_state() -> impl Strategy<Value = State> {
    prop_oneof![
        3 => proptest::sample::select(vec!["1", "2", "3"]).prop_map(file),
        1 => Just(State::Link { to: "x".into() }),
        1 => proptest::sample::select(vec![0o700, 0o755]).prop_map(|mode| State::Dir { mode }),
        2 => Just(State::Absent),
    ]
}

fn some_changes(most: usize) -> impl Strategy<Value = Vec<(PathBuf, State)>> {
    proptest::collection::vec((some_path(), some_state()), 0..most)
}

fn changed(disk: &Disk, changes: &[(PathBuf, State)]) -> Disk {
    let mut disk = disk.clone();
    for (path, state) in changes {
        set(&mut disk, path, state.clone());
    }
    disk
}

proptest! {
    #[test]
    fn what_nobody_touched_since_comes_back_exactly(
        start in some_changes(12), turns in proptest::collection::vec(some_changes(6), 1..4),
    ) {
        let before = changed(&Disk::new(), &start);
        let (mut disk, mut all) = (before.clone(), Vec::new());
        for turn in &turns {
            let after = changed(&disk, turn);
            all.extend(difference(&disk, &after));
            disk = after;
        }
        let after = disk.clone();
        let plan = plan(&fold(&all), &after, Changed::Refuse);
        prop_assert_eq!(&plan.conflicts, &[]);
        prop_assert_eq!(run(&mut disk, &plan.steps), Ok(()));
        prop_assert_eq!(disk, before);
    }

    #[test]
    fn what_a_person_changed_since_stays(
        start in some_changes(12), turn in some_changes(6), person in some_changes(4),
    ) {
        let before = changed(&Disk::new(), &start);
        let after = changed(&before, &turn);
        let now = changed(&after, &person);
        let plan = plan(&fold(&difference(&before, &after)), &now, Changed::Refuse);
        let mut disk = now.clone();
        prop_assert_eq!(run(&mut disk, &plan.steps), Ok(()));
        for change in difference(&after, &now) {
            let is_dir = matches!(change.after, State::Dir { .. });
            if !is_dir && !change.after.same(&at(&before, &change.path)) {
                prop_assert_eq!(at(&disk, &change.path), change.after, "{:?}", change.path);
            }
        }
        // Whatever is refused is as it was.
        for (path, _) in &plan.conflicts {
            prop_assert_eq!(at(&disk, path), at(&now, path));
        }
    }

    #[test]
    fn what_is_done_can_be_taken_back(start in some_changes(12), turn in some_changes(6)) {
        let before = changed(&Disk::new(), &start);
        let after = changed(&before, &turn);
        let mut disk = after.clone();
        let back = plan(&fold(&difference(&before, &after)), &after, Changed::Refuse);
        run(&mut disk, &back.steps).unwrap();
        let again = plan(&fold(&back.changes), &before, Changed::Refuse);
        prop_assert_eq!(run(&mut disk, &again.steps), Ok(()));
        prop_assert_eq!(disk, after);
    }
}

#[test]
fn a_change_in_between_is_told_from_one_since() {
    let change = |before: &str, after: &str| Change { path: "/a".into(), before: file(before), after: file(after) };
    let why = |changes: &[Change], now: &str, changed| {
        let plan = plan(&fold(changes), &Disk::from([("/a".into(), file(now))]), changed);
        plan.conflicts.first().map(|(_, why)| *why)
    };
    let person_between = [change("1", "2"), change("person", "3")];
    assert_eq!(why(&person_between, "3", Changed::Refuse), Some(Why::ChangedBetween));
    assert_eq!(why(&person_between, "3", Changed::Overwrite), None);
    assert_eq!(why(&[change("1", "2")], "person", Changed::Refuse), Some(Why::ChangedSince));
    assert_eq!(why(&[change("1", "2")], "1", Changed::Refuse), None);
    let unkept = State::File(FileState { hash: None, len: 9, mode: 0o644, sense: None, written: Some(1) });
    let lost = [Change { path: "/a".into(), before: unkept, after: file("1") }];
    assert_eq!(why(&lost, "1", Changed::Overwrite), Some(Why::NotKept));
}
