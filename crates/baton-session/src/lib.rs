//! Sessions: the durable record of one agent's conversation, an append-only tree of entries in a JSONL file.
//!
//! May use `baton-core` and `baton-config`. An entry is on disk before its event is shown; a file is never rewritten;
//! nothing here asks a model or prints.

mod blobs;
mod budget;
mod carried;
mod changing;
mod codec;
pub mod compaction;
mod entry;
mod foreign;
mod history;
mod index;
mod line;
mod load;
mod log;
mod merge;
mod parcel;
mod prune;
mod scan;
mod search;
mod sessions;
mod tree;
mod view;

pub use blobs::Blobs;
pub use budget::{Candidate, Discarded, KEPT, SessionSettings, Verdict, Why, decide};
pub use carried::{Carried, FileUse, Ran, RanEnd, Rejected, Words};
pub use changing::{ChangeError, Trashed};
pub use entry::{Compacted, Entry, EntryBody, Header, Origin, Own, Span, VERSION, is_durable};
pub use foreign::{Converted, convert};
pub use history::History;
pub use index::{Found, Index, IndexError, MARKS, Summary};
pub use load::{LoadError, Loaded, load};
pub use log::{AppendError, Log, OpenError, Unsynced};
pub use merge::{Definition, Merged, Outcome, Staged};
pub use parcel::{DEFINITIONS, Manifest, PARCEL_VERSION, Packed, ParcelError, SETTINGS, pack, unpack};
pub use prune::{Done, PruneError, Pruned};
pub use scan::{Backward, Cause, Damage, Forward, Piece};
pub use search::{Archive, Hit, texts};
pub use sessions::{FindError, ForkError, SessionFile, Sessions};
pub use view::{Placed, View};
