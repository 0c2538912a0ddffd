//! TLS settings: the system's certificate authorities, further ones from files, shipped ones as a last resort.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Fault;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The variable in which many tools look for further authorities.
const EXTRA_CA_ENV: &str = "NODE_EXTRA_CA_CERTS";

/// The settings for one server. Reading the authorities blocks for milliseconds, so it is left out for
/// servers without TLS. `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the system's authorities.
pub fn config(base_url: &str, ca_file: Option<&Path>) -> Result<ClientConfig, Fault> {
    let mut roots = RootCertStore::empty();
    let proxied =
        ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].iter().any(|name| std::env::var_os(name).is_some());
    if proxied || !base_url.starts_with("http://") {
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
        if roots.is_empty() {
            // A machine without authorities of its own is common in containers; a wrong path is not meant.
            if let Some(name) = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().find(|name| std::env::var_os(name).is_some()) {
                let why = native.errors.first().map_or_else(|| "it holds none".to_owned(), ToString::to_string);
                return Err(
                    Fault::input(format!("no certificate authorities in {name}: {why}")).hint("correct or unset it")
                );
            }
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let extra = std::env::var_os(EXTRA_CA_ENV).map(PathBuf::from);
        for file in [ca_file, extra.as_deref()].into_iter().flatten() {
            add_file(&mut roots, file)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::input(format!("TLS cannot be used: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), Fault> {
    let unusable = |why: String| {
        Fault::input(format!("cannot read certificate authorities from {}: {why}", file.display()))
            .hint(format!("it must be a PEM file; it is set by `network.ca_file` or {EXTRA_CA_ENV}"))
    };
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| unusable(error.to_string()))?;
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(unusable("it holds none".to_owned())),
        _ => Ok(()),
    }
}
