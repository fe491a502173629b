//! A full disk: sends are refused with the reason, everything else keeps working, also after a crash, and sends are
//! accepted again when there is space.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::mailbox_client::text;
use super::rig::{Server, SharedStorage, new_storage};

/// Large, so that few messages fill the disk.
const PAYLOAD_BYTES: usize = 1 << 20;
const MIB: u64 = 1 << 20;
/// Size of the file system.
const DISK_MIB: u64 = 84;
/// Size of a file next to the store, which is deleted at the end. The rest has space for three segments of 16 MiB.
const BALLAST_MIB: u64 = 20;

/// A small file system in its own mount namespace, removed with the test.
struct SmallDisk {
    /// Keeps the mount namespace and its files while no server runs.
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
                "this test needs a tmpfs in its own mount namespace (`unshare --mount`, `mount`): run it as root, where \
                 mounts are allowed; {said:?} {error}"
            );
        }
        Self { holder, path: path.to_owned() }
    }

    /// The path by which this process can access a file on it.
    fn path_of(&self, name: &str) -> PathBuf {
        let path = self.path.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(path).join(name)
    }

    /// Starts a server with its store on this disk.
    fn serve(&self, storage: SharedStorage) -> Server {
        let target = self.holder.id().to_string();
        let url = format!("embedded:{}", self.path.join("data").display());
        let wrapper = ["nsenter", "--mount", "--target", &target, "--"];
        Server::start_under(&wrapper, storage, &["--store", &url], &["mailbox.shards=1"])
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
    let reply = answer.refused(429, "E_SATURATED");
    // A crash may leave a part of a fourth segment, which counts until it is removed.
    let numbers = reply.split_once("disk_bytes: ").and_then(|(_, numbers)| numbers.split_once(')'));
    let (used, limit) = numbers.and_then(|(numbers, _)| numbers.split_once(" of ")).expect("a bound");
    let bytes: u64 = used.parse().expect("a number");
    assert!((3 * 16 * MIB..(DISK_MIB - BALLAST_MIB) * MIB).contains(&bytes) && used == limit, "{reply}");
    assert!(answer.header("retry-after").is_some());
    false
}

/// Receives and acknowledges the message with this number.
fn handle(server: &Server, number: usize) {
    let received = server.recv_one("t");
    assert_eq!(text(&received, "idem_key"), number.to_string());
    assert!(
        text(&received, "payload_b64") == super::mailbox_client::base64(payload(number)),
        "message {number}"
    );
    server.ack(text(&received, "receipt")).ok();
}

/// Number of log lines that contain a text.
fn lines(server: &Server, text: &str) -> usize {
    server.log().lines().filter(|line| line.contains(text)).count()
}

/// Holds: MBX-P-2, RULE-13, RULE-27.
#[test]
fn a_full_disk_refuses_sends_and_nothing_else() {
    let storage = new_storage();
    let disk = SmallDisk::mount(&storage.path().join("disk"), DISK_MIB);
    let ballast = disk.path_of("ballast");
    std::fs::write(&ballast, vec![1; usize::try_from(BALLAST_MIB * MIB).expect("a size")]).expect("a file");

    let server = disk.serve(storage);
    let sent = (0..100).find(|number| !is_sent(&server, *number)).expect("the disk is full");
    assert!(sent > 20, "{sent} messages fill the disk");
    for _ in 0..10 {
        assert!(!is_sent(&server, sent), "sends stay refused");
    }
    assert_eq!(server.get("/readyz?for=writes").status, 503);
    assert_eq!(server.get("/readyz?for=reads").ok()["status"], "degraded");
    assert_eq!(
        (lines(&server, "cannot grow"), lines(&server, "requests are rejected: the disk is full")),
        (1, 1)
    );
    let store = format!("embedded:{}", disk.path.join("data").display());
    assert!(server.wait_for_line("cannot grow").contains(&store), "{store}");
    (0..3).for_each(|number| handle(&server, number));
    let held = server.recv_one("t");

    // The first restart uses the last free file for a segment, the second one continues the newest segment.
    let server = disk.serve(server.kill());
    assert_eq!(
        server.ack(text(&held, "receipt")).ok()["ok"],
        true,
        "a delivery survives a crash on a full disk"
    );
    assert!(!is_sent(&server, sent));
    (4..7).for_each(|number| handle(&server, number));
    let server = disk.serve(server.kill());
    assert!(!is_sent(&server, sent));
    (7..10).for_each(|number| handle(&server, number));
    assert_eq!(lines(&server, "cannot grow"), 1);

    std::fs::remove_file(ballast).expect("the file exists");
    server.eventually(|| (server.send("t", &sent.to_string(), &payload(sent)).status == 200).then_some(()));
    server.wait_for_line("has space again");
    (10..=sent).for_each(|number| handle(&server, number));
    assert_eq!(server.get("/readyz?for=writes").status, 200);
    assert_eq!((lines(&server, "cannot grow"), lines(&server, "has space again")), (1, 1));
    server.stop();
}
