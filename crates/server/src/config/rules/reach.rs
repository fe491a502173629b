//! What other machines can reach needs tokens and TLS.

use crate::config::draft::Draft;
use crate::config::listen::ListenAddress;
use crate::config::problem::Problems;
use crate::config::table::find;
use crate::config::target::Target;

/// Reports addresses that other machines can reach although clients are not verified, and half of a certificate.
pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    let (auth, tls) = (&draft.config.auth, &draft.config.tls);
    let is_tls = tls.certificate_file.is_some() && tls.key_file.is_some();
    let missing = match (auth.key_file.is_some(), is_tls) {
        (true, true) => None,
        (false, true) => Some("set `auth.key_file`, so that requests need tokens"),
        (true, false) => {
            Some("set `tls.certificate_file` and `tls.key_file`, so that nobody can read the tokens")
        }
        (false, false) => Some("set `auth.key_file`, `tls.certificate_file` and `tls.key_file`"),
    };
    let listeners = [("listen", &draft.config.listen), ("admin.listen", &draft.config.admin.listen)];
    for (name, addresses) in listeners {
        if let (Some(missing), Some(address)) =
            (missing, addresses.iter().find(|address| address.is_public()))
        {
            report(draft, problems, name, &text(address, missing));
        }
    }
    if tls.certificate_file.is_some() != tls.key_file.is_some() {
        let (set, other) = match tls.key_file {
            None => ("tls.certificate_file", "tls.key_file"),
            Some(_) => ("tls.key_file", "tls.certificate_file"),
        };
        report(draft, problems, set, &format!("needs `{other}`: set both, or neither"));
    }
    if tls.client_ca_file.is_some() && !is_tls {
        let fault = "needs `tls.certificate_file` and `tls.key_file`: set them, or set it to \"off\"";
        report(draft, problems, "tls.client_ca_file", fault);
    }
}

fn text(address: &ListenAddress, missing: &str) -> String {
    format!(
        "contains `{address}`, which other machines can reach: {missing}; or use a loopback address, a unix socket, or a proxy on the same machine"
    )
}

fn report(draft: &Draft, problems: &mut Problems, name: &str, fault: &str) {
    if let Some(target) = find(name).map(Target::of) {
        problems.at(name, &draft.origins.effective(&target), fault);
    }
}
