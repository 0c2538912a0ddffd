//! Rooms: the sandbox of one command, made before it starts and cleared up when all of it has ended.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use baton_guard::sandbox::{Aftermath, Prepared};

use crate::outlet::WayOut;
use crate::{CallContext, Workspace};

/// The sandbox of one command, and its way out.
#[derive(Debug)]
pub(crate) struct Room {
    pub(super) sandbox: Prepared,
    way_out: Option<WayOut>,
}

impl Room {
    /// Variables that its command gets.
    pub(super) fn vars(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.way_out.iter().flat_map(WayOut::vars)
    }
}

/// What is to be known of a room that was left.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) aftermath: Aftermath,
    /// The hosts that were refused meanwhile.
    pub(super) refused: Vec<String>,
}

/// Makes the room of a call; `None` if its workspace does not keep commands in, or if this one is let out. With `lingers`,
/// what the command leaves running is part of it.
pub(crate) async fn enter(cx: &CallContext, lingers: bool) -> io::Result<Option<Room>> {
    if cx.workspace.confinement().is_none() || cx.leave.everything {
        return Ok(None);
    }
    let (workspace, leave) = (Arc::clone(&cx.workspace), cx.leave.clone());
    let sandbox = crate::blocking(move || {
        let confinement = workspace.confinement()?;
        let sandbox = confinement.prepare(&workspace, &leave);
        Some(if lingers { sandbox.and_then(Prepared::lingering) } else { sandbox })
    });
    let named = |error: io::Error| io::Error::new(error.kind(), format!("no sandbox could be made: {error}"));
    let Some(sandbox) = sandbox.await.transpose().map_err(named)? else { return Ok(None) };
    let way_out = if cx.leave.network { None } else { way_out(&cx.workspace).await? };
    Ok(Some(Room { sandbox, way_out }))
}

async fn way_out(workspace: &Arc<Workspace>) -> io::Result<Option<WayOut>> {
    let Some(confinement) = workspace.confinement().filter(|confinement| !confinement.reachable().is_empty()) else {
        return Ok(None);
    };
    let inside = Arc::clone(workspace);
    let listen = crate::blocking(move || match inside.confinement() {
        Some(confinement) => confinement.sandbox.listener(),
        None => Ok(None),
    });
    let named = |error: io::Error| io::Error::new(error.kind(), format!("the proxy of sandbox.hosts failed: {error}"));
    confinement.outlet.open(listen).await.map_err(named)
}

/// Clears a room up; an error if the command was not run at all.
pub(super) async fn leave(room: Option<Room>) -> io::Result<Left> {
    let Some(Room { sandbox, way_out }) = room else { return Ok(Left::default()) };
    let aftermath = crate::blocking(move || sandbox.finish()).await?;
    match aftermath.error {
        Some(error) => Err(io::Error::other(format!("the sandbox could not be made, so it was not run: {error}"))),
        None => Ok(Left { aftermath, refused: way_out.map(|way_out| way_out.refused()).unwrap_or_default() }),
    }
}
