//! TLS: certificates that are good, bad, replaced while the server runs, and demanded of clients.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::rig::{Server, SharedStorage, Store, new_storage};
use crate::rig::{CommandOutput, oncebox};

/// Files of a test, made with `openssl`.
struct Files(SharedStorage);

impl Files {
    fn new() -> Self {
        let files = Self(new_storage());
        fs::write(files.path("caconfig"), CA_CONFIG.replace("{directory}", &files.path(""))).expect("a file");
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    #[track_caller]
    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null()).output();
        let output = output.expect("openssl is installed by `cargo xtask test`");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes `name.crt` and `name.key`, for these names, signed by itself.
    fn certificate(&self, name: &str, names: &str) {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        let names = format!("subjectAltName={names}");
        self.openssl(
            &[
                NEW_KEY,
                &[
                    "-x509",
                    "-days",
                    "30",
                    "-keyout",
                    &key,
                    "-out",
                    &certificate,
                    "-subj",
                    &format!("/CN={name}"),
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                    "-addext",
                    &names,
                ],
            ]
            .concat(),
        );
    }

    /// Makes a certificate whose time is over.
    fn expired_certificate(&self, name: &str) {
        let (request, certificate, key) =
            (format!("{name}.csr"), format!("{name}.crt"), format!("{name}.key"));
        self.openssl(
            &[NEW_KEY, &["-keyout", &key, "-out", &request, "-subj", &format!("/CN={name}")]].concat(),
        );
        fs::write(self.path("index.txt"), "").expect("a file");
        self.openssl(&[
            "ca",
            "-batch",
            "-config",
            "caconfig",
            "-selfsign",
            "-create_serial",
            "-keyfile",
            &key,
            "-in",
            &request,
            "-out",
            &certificate,
            "-notext",
            "-startdate",
            "20200101000000Z",
            "-enddate",
            "20210101000000Z",
            "-extensions",
            "leaf",
        ]);
    }

    /// Makes `ca.crt`, and `client.crt` that it signed.
    fn client_certificate(&self) {
        self.openssl(
            &[
                NEW_KEY,
                &["-x509", "-days", "30", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=clients"],
            ]
            .concat(),
        );
        self.openssl(
            &[NEW_KEY, &["-keyout", "client.key", "-out", "client.csr", "-subj", "/CN=billing"]].concat(),
        );
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "client.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-out",
            "client.crt",
            "-extfile",
            "caconfig",
            "-extensions",
            "leaf",
        ]);
    }

    fn start(&self, certificate: &str, set: &[&str]) -> Server {
        let certificates = [
            format!("tls.certificate_file={}", self.path(&format!("{certificate}.crt"))),
            format!("tls.key_file={}", self.path(&format!("{certificate}.key"))),
        ];
        let certificates = certificates.each_ref().map(String::as_str);
        Server::start_in(self.0.clone(), Store::Memory, &[&certificates, set].concat())
    }

    /// Calls the server with a command that trusts a certificate.
    fn topics(&self, server: &str, trusted: &str) -> CommandOutput {
        let mut command = oncebox(&["--server", server, "topics", "--output", "json"]);
        command.env("HOME", "/nonexistent").env("ONCEBOX_CA_FILE", self.path(&format!("{trusted}.crt")));
        CommandOutput::from(command.output().expect("the binary runs"))
    }

    /// What `openssl s_client` gets as the answer of a health check.
    fn handshake(&self, server: &Server, arguments: &[&str]) -> String {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-connect", &server.address]).args(arguments);
        command.current_dir(self.0.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("openssl is installed by `cargo xtask test`");
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        // It may have ended already.
        let _ = child.stdin.take().expect("stdin").write_all(request);
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

const NEW_KEY: &[&str] = &["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const CA_CONFIG: &str = "
[ca]
default_ca = own
[own]
database = {directory}/index.txt
new_certs_dir = {directory}
serial = {directory}/serial
default_md = sha256
policy = any
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:FALSE
subjectAltName = DNS:localhost,IP:127.0.0.1
";
const LOCAL: &str = "DNS:localhost,IP:127.0.0.1";

#[test]
fn commands_talk_to_a_server_whose_certificate_they_trust() {
    let files = Files::new();
    files.certificate("good", LOCAL);
    files.certificate("other", LOCAL);
    let server = files.start("good", &[]);
    let url = format!("https://{}", server.address);
    let good = files.topics(&url, "good");
    assert_eq!(
        (good.code, serde_json::from_str::<Value>(&good.stdout).unwrap()),
        (Some(0), json!([])),
        "{good:?}"
    );
    let named = files.topics(&url.replace("127.0.0.1", "localhost"), "good");
    assert_eq!(named.code, Some(0), "{named:?}");
    let untrusted = files.topics(&url, "other");
    assert!(untrusted.code == Some(4) && untrusted.stderr.contains("certificate"), "{untrusted:?}");
    let plain = files.topics(&format!("http://{}", server.address), "good");
    assert_eq!(plain.code, Some(4), "{plain:?}");
    let missing = files.topics(&url, "missing");
    assert!(missing.code == Some(1) && missing.stderr.contains("missing.crt"), "{missing:?}");
    fs::write(files.path("nonsense.crt"), "nonsense").unwrap();
    let nonsense = files.topics(&url, "nonsense");
    assert!(nonsense.code == Some(2) && nonsense.stderr.contains("PEM"), "{nonsense:?}");
    assert!(server.admin_address_line().contains("https://"), "{}", server.log());
}

#[test]
fn a_certificate_of_another_name_or_time_is_not_trusted() {
    let files = Files::new();
    files.certificate("elsewhere", "DNS:elsewhere.example");
    let elsewhere = files.start("elsewhere", &[]);
    let wrong = files.topics(&format!("https://{}", elsewhere.address), "elsewhere");
    assert!(wrong.code == Some(4) && wrong.stderr.contains("not valid for name"), "{wrong:?}");
    let files = Files::new();
    files.expired_certificate("expired");
    let expired = files.start("expired", &[]);
    let expired = files.topics(&format!("https://{}", expired.address), "expired");
    assert!(expired.code == Some(4) && expired.stderr.contains("expired"), "{expired:?}");
}

#[test]
fn old_protocols_and_clients_without_a_certificate_are_refused() {
    let files = Files::new();
    files.certificate("good", LOCAL);
    files.client_certificate();
    let server = files.start("good", &[]);
    for version in ["-tls1_2", "-tls1_3"] {
        let answer = files.handshake(&server, &[version]);
        assert!(answer.starts_with("HTTP/1.1 200"), "{version}: {answer}");
    }
    for version in ["-tls1", "-tls1_1"] {
        assert_eq!(files.handshake(&server, &[version, "-cipher", "ALL:@SECLEVEL=0"]), "", "{version}");
    }
    let demanding = files.start("good", &[&format!("tls.client_ca_file={}", files.path("ca.crt"))]);
    let with = files.handshake(&demanding, &["-cert", "client.crt", "-key", "client.key"]);
    assert!(with.starts_with("HTTP/1.1 200"), "{with}");
    assert_eq!(files.handshake(&demanding, &[]), "", "no certificate");
    let foreign = files.handshake(&demanding, &["-cert", "good.crt", "-key", "good.key"]);
    assert_eq!(foreign, "", "a certificate of another authority");
}

#[test]
fn an_incomplete_handshake_times_out() {
    let files = Files::new();
    files.certificate("good", LOCAL);
    let server = files.start("good", &["http.header_timeout=300ms"]);
    for sent in [&b""[..], &[22, 3, 1, 1, 0, 1], b"GET /healthz HTTP/1.1\r\n\r\n"] {
        let mut connection = server.connect();
        connection.write(sent);
        // The end of the connection; a client that is no TLS client gets an alert before.
        assert!(connection.rest().len() <= 7, "{sent:?}");
    }
    assert_eq!(files.topics(&format!("https://{}", server.address), "good").code, Some(0));
}

/// A connection that is open stays open; new ones get the new certificate. A bad one changes nothing.
#[test]
fn a_certificate_is_replaced_while_the_server_runs() {
    let files = Files::new();
    files.certificate("used", LOCAL);
    files.certificate("next", LOCAL);
    fs::copy(files.path("used.crt"), files.path("old.crt")).unwrap();
    let server = files.start("used", &[]);
    let url = format!("https://{}", server.address);
    let trusts = |name: &str| files.topics(&url, name).code == Some(0);
    assert!(trusts("old") && !trusts("next"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = oncebox_client::Client::builder(&url).retries(0);
    let client = client.authorities(fs::read(files.path("old.crt")).unwrap()).build().unwrap();
    runtime.block_on(client.stats()).unwrap();
    for name in ["crt", "key"] {
        fs::copy(files.path(&format!("next.{name}")), files.path(&format!("used.{name}"))).unwrap();
    }
    server.signal(Signal::HUP);
    server.wait_for_line("configuration reloaded");
    assert!(trusts("next") && !trusts("old"), "new connections");
    runtime
        .block_on(client.stats())
        .expect("the open connection, because the old certificate would not be served");
    fs::write(files.path("used.crt"), "nonsense").unwrap();
    server.signal(Signal::HUP);
    let failed = server.wait_for_line("configuration reload failed");
    assert!(failed.contains("used.crt"), "{failed}");
    assert!(trusts("next"), "the certificate before stays");
}

#[test]
fn what_other_machines_can_reach_needs_tokens_and_tls() {
    let files = Files::new();
    files.certificate("good", LOCAL);
    let (certificate, key, keys) = (files.path("good.crt"), files.path("good.key"), files.path("keys"));
    let made = oncebox(&["cap", "keygen", "--key-file", &keys]).output().unwrap();
    assert!(made.status.success());
    let tls = [format!("tls.certificate_file={certificate}"), format!("tls.key_file={key}")];
    let tokens = [format!("auth.key_file={keys}")];
    let check = |settings: &[&String]| {
        let mut command =
            oncebox(&["config", "check", "--set", "listen=0.0.0.0:0", "--set", "store=memory:"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        CommandOutput::from(command.output().expect("the binary runs"))
    };
    let refused = |settings: &[&String], expected: &str| {
        let output = check(settings);
        assert!(output.code == Some(1) && output.stdout.contains(expected), "{output:?}");
    };
    refused(&[], "set `auth.key_file`, `tls.certificate_file` and `tls.key_file`");
    refused(&[&tls[0], &tls[1]], "set `auth.key_file`");
    refused(&[&tokens[0]], "set `tls.certificate_file` and `tls.key_file`");
    refused(&[&tls[0], &tokens[0]], "needs `tls.key_file`");
    assert_eq!(check(&[&tls[0], &tls[1], &tokens[0]]).code, Some(0));
    let server =
        Server::start_in(files.0.clone(), Store::Memory, &["listen=0.0.0.0:0", &tls[0], &tls[1], &tokens[0]]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let refused = files.topics(&format!("https://localhost:{port}"), "good");
    assert!(refused.code == Some(3) && refused.stderr.contains("no token"), "{refused:?}");
    fs::set_permissions(Path::new(&key), fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = oncebox(&["serve", "--store", "memory:", "--listen", "127.0.0.1:0"]);
    command.args(["--set", &tls[0], "--set", &tls[1]]).current_dir(files.0.path());
    let readable = CommandOutput::from(command.output().unwrap());
    assert!(readable.code == Some(1) && readable.stderr.contains("chmod 600"), "{readable:?}");
}
