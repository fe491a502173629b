//! The certificate of the server, and the clients whose certificates it demands.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use zeroize::Zeroizing;

use crate::config::TlsConfig;
use crate::private_file::{self, NotPrivate};

/// Larger files contain no certificates.
const BYTES_MAX: u64 = 1024 * 1024;
/// The protocols that the server speaks over TLS.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error("{}: cannot read it: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: {problem}", path.display())]
    NotPrivate { path: PathBuf, problem: NotPrivate },
    #[error("{}: it contains no {what} in PEM format ({error})", path.display())]
    Pem { path: PathBuf, what: &'static str, error: pem::Error },
    #[error("{}: {error}", path.display())]
    Certificate { path: PathBuf, error: rustls::Error },
    #[error("{}: {error}", path.display())]
    ClientCa { path: PathBuf, error: VerifierBuilderError },
}

/// Reads the certificate, if one is configured.
pub(crate) fn read(config: &TlsConfig) -> Result<Option<Arc<ServerConfig>>, TlsProblem> {
    let (Some(certificate), Some(key)) = (&config.certificate_file, &config.key_file) else {
        return Ok(None);
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let to_error = |error| TlsProblem::Certificate { path: certificate.clone(), error };
    let builder = builder.with_safe_default_protocol_versions().map_err(to_error)?;
    let builder = match &config.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let to_error = |error| TlsProblem::ClientCa { path: path.clone(), error };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let to_error = |error| TlsProblem::Certificate { path: path.clone(), error };
                roots.add(certificate).map_err(to_error)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(to_error)?)
        }
    };
    let mut server =
        builder.with_single_cert(certificates(certificate)?, private_key(key)?).map_err(to_error)?;
    server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(Some(Arc::new(server)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let unreadable = |error| TlsProblem::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let not_pem = |error| TlsProblem::Pem { path: path.to_owned(), what: "certificate", error };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(not_pem)?;
    if certificates.is_empty() { Err(not_pem(pem::Error::NoItemsFound)) } else { Ok(certificates) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    let unreadable = |error| TlsProblem::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let is_private = private_file::check(&file, path).map_err(unreadable)?;
    is_private.map_err(|problem| TlsProblem::NotPrivate { path: path.to_owned(), problem })?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let not_pem = |error| TlsProblem::Pem { path: path.to_owned(), what: "private key", error };
    PrivateKeyDer::from_pem_slice(&bytes).map_err(not_pem)
}
