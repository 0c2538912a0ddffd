//! Rooms: the sandbox of one command, made before it starts and cleared up when all of it has ended.

use std::io;
use std::sync::Arc;

use baton_guard::sandbox::{Aftermath, Prepared};

use crate::CallContext;

/// Makes the room of a call; `None` if its workspace does not keep commands in, or if this one is let out. With `lingers`,
/// what the command leaves running is part of it.
pub(crate) async fn enter(cx: &CallContext, lingers: bool) -> io::Result<Option<Prepared>> {
    if cx.workspace.confinement().is_none() || cx.leave.everything {
        return Ok(None);
    }
    let (workspace, leave) = (Arc::clone(&cx.workspace), cx.leave.clone());
    let room = crate::blocking(move || {
        let confinement = workspace.confinement()?;
        let room = confinement.prepare(&workspace, &leave);
        Some(if lingers { room.and_then(Prepared::lingering) } else { room })
    });
    room.await.transpose().map_err(|error| io::Error::new(error.kind(), format!("no sandbox could be made: {error}")))
}

/// Clears a room up; an error if the command was not run at all.
pub(super) async fn leave(room: Option<Prepared>) -> io::Result<Aftermath> {
    let Some(room) = room else { return Ok(Aftermath::default()) };
    let left = crate::blocking(move || room.finish()).await?;
    match left.error {
        Some(error) => Err(io::Error::other(format!("the sandbox could not be made, so it was not run: {error}"))),
        None => Ok(left),
    }
}
