//! A file system without space under the server: intake is refused and says why, work goes on, also after a crash, and intake does
//! when there is space again.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::rig::{Home, Server, home};
use super::talk::text;

/// Of a payload: so few messages fill the disk.
const PAYLOAD_BYTES: usize = 1 << 20;
const MIB: u64 = 1 << 20;
/// Of the file system.
const DISK_MIB: u64 = 84;
/// Of a file beside the store, which is deleted in the end. What is left has space for three segments of 16 MiB.
const BALLAST_MIB: u64 = 20;

/// A small file system that only its own processes see, and that is gone with the test.
struct SmallDisk {
    /// Keeps the mount namespace, and with it the files, while no server runs.
    holder: Child,
    path: PathBuf,
}

impl SmallDisk {
    fn mount(path: &Path, mebibytes: u64) -> Self {
        std::fs::create_dir_all(path).expect("a directory");
        let script = format!(r#"mount -t tmpfs -o size={mebibytes}m tmpfs "$0" && echo mounted && exec cat"#);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().expect("`unshare` of util-linux runs");
        let mut line = String::new();
        let said = BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line);
        if line != "mounted\n" {
            let mut error = String::new();
            let _ = holder.stderr.take().expect("a pipe").read_to_string(&mut error);
            panic!(
                "this test needs a tmpfs in a mount namespace of its own (`unshare --mount`, `mount`): run it as root, where \
                 mounts are allowed; {said:?} {error}"
            );
        }
        Self { holder, path: path.to_owned() }
    }

    /// How this process reaches a file on it.
    fn reach(&self, name: &str) -> PathBuf {
        let path = self.path.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(path).join(name)
    }

    /// A server with its store on it.
    fn serve(&self, home: Home) -> Server {
        let target = self.holder.id().to_string();
        let url = format!("embedded:{}", self.path.join("data").display());
        let wrapper = ["nsenter", "--mount", "--target", &target, "--"];
        Server::start_under(&wrapper, home, &["--store", &url], &["mailbox.shards=1"])
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn payload(number: usize) -> String {
    char::from(b'a' + u8::try_from(number % 26).expect("a letter")).to_string().repeat(PAYLOAD_BYTES)
}

fn is_sent(server: &Server, number: usize) -> bool {
    let answer = server.send("t", &number.to_string(), &payload(number));
    if answer.status == 200 {
        return true;
    }
    let told = answer.refused(429, "E_SATURATED");
    let bytes = 3 * 16 * MIB;
    assert!(told.contains(&format!("disk_bytes: {bytes} of {bytes}")), "{told}");
    assert!(answer.header("retry-after").is_some());
    false
}

/// Receives and acknowledges one message, which must be this one.
fn handle(server: &Server, number: usize) {
    let received = server.recv_one("t");
    assert_eq!(text(&received, "idem_key"), number.to_string());
    assert!(text(&received, "payload_b64") == super::talk::base64(payload(number)), "message {number}");
    server.ack(text(&received, "receipt")).ok();
}

/// Lines of the log that contain a text.
fn lines(server: &Server, text: &str) -> usize {
    server.log().lines().filter(|line| line.contains(text)).count()
}

/// Holds: MBX-P-2, RULE-13, RULE-27.
#[test]
fn a_full_disk_refuses_sends_and_nothing_else() {
    let home = home();
    let disk = SmallDisk::mount(&home.path().join("disk"), DISK_MIB);
    let ballast = disk.reach("ballast");
    std::fs::write(&ballast, vec![1; usize::try_from(BALLAST_MIB * MIB).expect("a size")]).expect("a file");

    let server = disk.serve(home);
    let sent = (0..100).find(|number| !is_sent(&server, *number)).expect("the disk is full");
    assert!(sent > 20, "{sent} messages fill the disk");
    for _ in 0..10 {
        assert!(!is_sent(&server, sent), "and stay away");
    }
    assert_eq!(server.get("/readyz?for=writes").status, 503);
    assert_eq!(server.get("/readyz?for=reads").ok()["status"], "degraded");
    assert_eq!(
        (lines(&server, "cannot grow"), lines(&server, "requests are refused: the disk is full")),
        (1, 1)
    );
    let store = format!("embedded:{}", disk.path.join("data").display());
    assert!(server.wait_for_line("cannot grow").contains(&store), "{store}");
    (0..3).for_each(|number| handle(&server, number));
    let held = server.recv_one("t");

    // The first opening takes the last file for a segment, the second one continues the newest.
    let server = disk.serve(server.kill());
    assert_eq!(
        server.ack(text(&held, "receipt")).ok()["ok"],
        true,
        "a delivery outlives a crash on a full disk"
    );
    assert!(!is_sent(&server, sent));
    (4..7).for_each(|number| handle(&server, number));
    let server = disk.serve(server.kill());
    assert!(!is_sent(&server, sent));
    (7..10).for_each(|number| handle(&server, number));
    assert_eq!(lines(&server, "cannot grow"), 1);

    std::fs::remove_file(ballast).expect("the file is there");
    server.eventually(|| (server.send("t", &sent.to_string(), &payload(sent)).status == 200).then_some(()));
    server.wait_for_line("has space again");
    (10..=sent).for_each(|number| handle(&server, number));
    assert_eq!(server.get("/readyz?for=writes").status, 200);
    assert_eq!((lines(&server, "cannot grow"), lines(&server, "has space again")), (1, 1));
    server.stop();
}
