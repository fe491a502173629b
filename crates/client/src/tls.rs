//! TLS to the server: whom the client trusts.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::ClientError;

/// Trusts the authorities of a PEM text; without one, those of the system.
pub(crate) fn config(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, ClientError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate.ok().map(|certificate| roots.add(certificate));
                if !matches!(added, Some(Ok(()))) {
                    return Err(ClientError::invalid(
                        "a certificate authority is not a certificate in PEM format",
                    ));
                }
            }
            if roots.is_empty() {
                return Err(ClientError::invalid(
                    "there is no certificate authority: pass one in PEM format",
                ));
            }
        }
        None => {
            // Certificates of the system that are not valid are of no use, and no reason to fail.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(ClientError::invalid(
                    "this system has no certificate authorities: install `ca-certificates`, or name a file of your own",
                ));
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| ClientError::invalid("this build has no version of TLS"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
