//! Resolving names to public addresses only.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::public;

/// Gives a connection public addresses and nothing else.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is put in later.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let kept = only_public(name.as_str(), found)?;
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// Checks a name that somebody else will resolve. One that is not known here is not refused.
pub(crate) async fn check_name(name: &str) -> Result<(), String> {
    let Ok(found) = tokio::net::lookup_host((name, 0)).await else { return Ok(()) };
    only_public(name, found.collect()).map(drop).map_err(|refused| refused.0)
}

/// The addresses, unless one of them is private: a name that mixes them is up to something.
pub(crate) fn only_public(name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
    match found.iter().find_map(|address| public(address.ip()).err()) {
        Some(why) => Err(Refused(format!("{name} leads to a private address: {why}"))),
        None => Ok(found),
    }
}

/// Why a failed request was refused by the resolver, if it was.
pub(super) fn refusal(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(Refused(why)) = inner.downcast_ref() {
            return Some(why.clone());
        }
        cause = inner.source();
    }
    None
}

/// Why a name is not resolved.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_here_is_refused_when_it_is_resolved() {
        let resolved = PublicOnly.resolve("localhost".parse().unwrap()).await;
        let refused = resolved.err().unwrap();
        assert!(refused.to_string().starts_with("localhost leads to a private address: "), "{refused}");
        assert!(check_name("localhost").await.is_err());
        assert_eq!(check_name("nothing.invalid").await, Ok(()));
    }

    #[test]
    fn one_private_address_among_public_ones_is_enough() {
        let of = |texts: &[&str]| only_public("n", texts.iter().map(|text| text.parse().unwrap()).collect());
        assert_eq!(of(&["1.1.1.1:0", "[2606:4700::1111]:0"]).unwrap().len(), 2);
        assert!(of(&["1.1.1.1:0", "10.0.0.1:0"]).is_err());
    }
}
