//! The disk budget: which sessions go to the trash, and what in the trash is deleted. Pure.

use std::collections::HashSet;

use baton_config::Section;
use baton_core::{SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So many sessions are kept whatever the rules say: those that were used last.
pub const KEPT: usize = 10;
const MEGABYTE: u64 = 1_000_000;
const DAY: i64 = 86_400;

/// The setting `sessions`: how much of the past is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionSettings {
    /// How many megabytes the sessions of a project may have, with all that belongs to them.
    pub disk_mb: u64,
    /// After how many days without use a session goes to the trash.
    pub keep_days: u32,
    /// After how many days it is deleted there.
    pub trash_days: u32,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { disk_mb: 5000, keep_days: 90, trash_days: 14 }
    }
}

impl Section for SessionSettings {
    const KEY: &'static str = "sessions";
}

/// A session, for the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The session.
    pub id: SessionId,
    /// When it was used last.
    pub used: Timestamp,
    /// How long its file is.
    pub bytes: u64,
    /// Whether somebody has it open.
    pub is_open: bool,
}

/// A session in the trash, for the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// Its place among those in the trash.
    pub place: usize,
    /// When it was put there.
    pub at: Timestamp,
    /// How long its file is.
    pub bytes: u64,
}

/// Why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Nobody has used it for so long.
    Age,
    /// There is too much of it all.
    Disk,
}

/// What goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Sessions that go to the trash.
    pub discard: Vec<(SessionId, Why)>,
    /// Places in the trash that are deleted.
    pub delete: Vec<(usize, Why)>,
}

/// What the rules say. `blobs` is how many bytes are kept apart from the files.
///
/// What is too old goes first. If all that is left is still too much, the trash is emptied from its oldest, and if that is not
/// enough either, the oldest sessions go to the trash: they are deleted the next time, if it is still too much then.
pub fn decide(
    settings: &SessionSettings,
    now: Timestamp,
    sessions: &[Candidate],
    trash: &[Discarded],
    blobs: u64,
) -> Verdict {
    let is_older = |at: Timestamp, days: u32| now.duration_since(at).as_secs() > i64::from(days) * DAY;
    let mut verdict = Verdict::default();
    let files: u64 = sessions.iter().map(|one| one.bytes).chain(trash.iter().map(|one| one.bytes)).sum();
    // Which blobs are whose is not known here: each file is taken to have its share of them.
    let weight = |bytes: u64| match files {
        0 => 0,
        files => bytes + u64::try_from(u128::from(blobs) * u128::from(bytes) / u128::from(files)).unwrap_or(u64::MAX),
    };
    let mut over = (files + blobs).saturating_sub(settings.disk_mb.saturating_mul(MEGABYTE));

    let mut trash: Vec<&Discarded> = trash.iter().collect();
    trash.sort_by_key(|one| (one.at, one.place));
    for one in trash {
        let why = if is_older(one.at, settings.trash_days) {
            Why::Age
        } else if over > 0 {
            Why::Disk
        } else {
            continue;
        };
        verdict.delete.push((one.place, why));
        over = over.saturating_sub(weight(one.bytes));
    }

    let mut sessions: Vec<&Candidate> = sessions.iter().collect();
    sessions.sort_by(|one, other| (one.used, &one.id).cmp(&(other.used, &other.id)));
    let kept: HashSet<&SessionId> = sessions.iter().rev().take(KEPT).map(|one| &one.id).collect();
    for one in sessions.into_iter().filter(|one| !one.is_open && !kept.contains(&one.id)) {
        let why = if is_older(one.used, settings.keep_days) {
            Why::Age
        } else if over > 0 {
            Why::Disk
        } else {
            continue;
        };
        verdict.discard.push((one.id.clone(), why));
        over = over.saturating_sub(weight(one.bytes));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + day * DAY).unwrap()
    }

    fn session(number: usize, used: i64, bytes: u64) -> Candidate {
        Candidate { id: SessionId::new(format!("ses_{number:03}")), used: day(used), bytes, is_open: false }
    }

    fn settings(disk_mb: u64) -> SessionSettings {
        SessionSettings { disk_mb, ..SessionSettings::default() }
    }

    #[test]
    fn what_is_too_old_goes_and_the_last_ten_stay() {
        let sessions: Vec<_> = (0..15).map(|number| session(number, 0, 1)).collect();
        let verdict = decide(&settings(5000), day(91), &sessions, &[], 0);
        let gone: Vec<_> = verdict.discard.iter().map(|(id, why)| (id.as_str(), *why)).collect();
        let expected = ["ses_000", "ses_001", "ses_002", "ses_003", "ses_004"].map(|id| (id, Why::Age));
        assert_eq!(gone, expected);
        assert_eq!(decide(&settings(5000), day(90), &sessions, &[], 0), Verdict::default());
    }

    #[test]
    fn what_is_open_stays() {
        let mut sessions: Vec<_> = (0..12).map(|number| session(number, 0, 1)).collect();
        sessions[0].is_open = true;
        let verdict = decide(&settings(5000), day(91), &sessions, &[], 0);
        assert_eq!(verdict.discard, [(SessionId::new("ses_001"), Why::Age)]);
    }

    #[test]
    fn too_much_takes_the_trash_first_and_then_the_oldest() {
        let sessions: Vec<_> =
            (0..12).map(|number| session(number, i64::try_from(number).unwrap(), MEGABYTE)).collect();
        let trash = [
            Discarded { place: 0, at: day(12), bytes: MEGABYTE },
            Discarded { place: 1, at: day(11), bytes: MEGABYTE },
        ];
        let verdict = decide(&settings(13), day(13), &sessions, &trash, 0);
        assert_eq!((verdict.delete, verdict.discard), (vec![(1, Why::Disk)], vec![]));
        let verdict = decide(&settings(11), day(13), &sessions, &trash, 0);
        assert_eq!(verdict.delete, [(1, Why::Disk), (0, Why::Disk)]);
        assert_eq!(verdict.discard, [(SessionId::new("ses_000"), Why::Disk)]);
        // Blobs weigh, too: half of it all is theirs.
        let verdict = decide(&settings(26), day(13), &sessions, &trash, 14 * MEGABYTE);
        assert_eq!((verdict.delete, verdict.discard), (vec![(1, Why::Disk)], vec![]));
    }

    proptest! {
        #[test]
        fn the_last_ones_and_open_ones_always_stay(
            uses in proptest::collection::vec((0_i64..200, 0_u64..50_000_000, any::<bool>()), 0..40),
            disk_mb in 0_u64..200,
            blobs in 0_u64..1_000_000_000,
        ) {
            let sessions: Vec<_> = uses
                .iter()
                .enumerate()
                .map(|(number, (used, bytes, is_open))| Candidate { is_open: *is_open, ..session(number, *used, *bytes) })
                .collect();
            let verdict = decide(&settings(disk_mb), day(200), &sessions, &[], blobs);
            let gone: HashSet<_> = verdict.discard.iter().map(|(id, _)| id).collect();
            prop_assert_eq!(gone.len(), verdict.discard.len());
            let left = sessions.iter().filter(|one| !gone.contains(&one.id));
            prop_assert!(left.count() >= sessions.len().min(KEPT));
            for one in sessions.iter().filter(|one| gone.contains(&one.id)) {
                prop_assert!(!one.is_open);
                let newer = sessions.iter().filter(|other| other.used >= one.used && other.id != one.id);
                prop_assert!(newer.count() >= KEPT);
            }
        }
    }
}
