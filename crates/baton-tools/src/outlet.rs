//! The way out of the sandbox: a proxy to the hosts that the person lists, and to no others.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use baton_core::HostPattern;
use baton_net::Proxy;
use tokio::sync::OnceCell;

/// The variables by which programs find a proxy, in the spellings that they look for.
const NAMES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// What is reached without it: the loopback, which commands have of their own.
const AROUND: [(&str, &str); 2] = [("NO_PROXY", "localhost,127.0.0.1,::1"), ("no_proxy", "localhost,127.0.0.1,::1")];

/// Which hosts commands reach from within the sandbox, and what leads them there once a command has run.
#[derive(Debug, Default)]
pub struct Outlet {
    hosts: Vec<HostPattern>,
    proxy: OnceCell<Arc<Proxy>>,
}

/// The way out of one command.
#[derive(Debug)]
pub(crate) struct WayOut {
    proxy: Arc<Proxy>,
    /// How many requests had been refused before it.
    before: u64,
}

impl Outlet {
    /// To these hosts.
    pub fn to(hosts: Vec<HostPattern>) -> Self {
        Self { hosts, proxy: OnceCell::new() }
    }

    /// The hosts.
    pub fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    /// Opens it for a command; `listen` gives the socket at which commands are heard, if they are.
    pub(crate) async fn open(
        &self,
        listen: impl Future<Output = io::Result<Option<TcpListener>>>,
    ) -> io::Result<Option<WayOut>> {
        let start = async {
            let listener = listen.await?.ok_or(io::ErrorKind::Unsupported)?;
            Proxy::start(listener, self.hosts.clone()).map(Arc::new)
        };
        if self.hosts.is_empty() {
            return Ok(None);
        }
        let proxy = Arc::clone(self.proxy.get_or_try_init(|| start).await?);
        Ok(Some(WayOut { before: proxy.refusals(), proxy }))
    }
}

impl WayOut {
    /// The variables that lead programs to it.
    pub(crate) fn vars(&self) -> impl Iterator<Item = (OsString, OsString)> + use<> {
        vars(self.proxy.address().port())
    }

    /// The hosts that were refused since it was opened. A command in the background may have asked for some of them.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.proxy.refused_since(self.before)
    }
}

/// The variables that lead programs to a proxy at this port of their loopback.
pub fn vars(port: u16) -> impl Iterator<Item = (OsString, OsString)> + use<> {
    let url = OsString::from(format!("http://127.0.0.1:{port}"));
    let to_it = NAMES.into_iter().map(move |name| (name.into(), url.clone()));
    to_it.chain(AROUND.map(|(name, value)| (name.into(), value.into())))
}
