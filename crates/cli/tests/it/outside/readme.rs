//! Runs the `curl` commands of the README.

use std::process::Command;

use super::rig::on_every_store;

const README: &str = include_str!("../../../../../README.md");

/// The shell blocks that call the server.
fn blocks() -> Vec<&'static str> {
    let blocks = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("localhost:7420")).collect()
}

#[test]
fn the_commands_of_the_readme_work() {
    on_every_store(&[], |server| {
        let mut replies = String::new();
        for block in blocks() {
            let script = block.replace("localhost:7420", &server.address);
            let output = Command::new("sh").args(["-e", "-c", &script]).output().expect("there is a shell");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{script}\n{stderr}");
            replies.push_str(&String::from_utf8_lossy(&output.stdout));
        }
        let expected = [
            r#""duplicate":false"#,
            r#""duplicate":true"#,
            r#"{"ok":true}"#,
            r#""status":"Acquired""#,
            r#"{"status":"Processed"}"#,
            r#""status":"Processed","attempts":1"#,
        ];
        let mut rest = &*replies;
        for text in expected {
            let at = rest.find(text).unwrap_or_else(|| panic!("{text}, in this order: {replies}"));
            rest = &rest[at + text.len()..];
        }
        assert!(!replies.contains("\"code\""), "no call is refused: {replies}");
    });
}

/// One command installs both binaries: with amnesia, the server executes the second one.
#[test]
fn the_install_command_of_the_readme_installs_both_binaries() {
    let path = README.split("cargo install --path ").nth(1).and_then(|rest| rest.split(' ').next());
    let path = path.expect("the README says how to install it");
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(workspace.join(path).join("Cargo.toml")).expect("a manifest");
    for program in ["oncebox", "oncebox-amnesia"] {
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{program}\"")), "{program}");
        assert!(README.contains(&format!("`{program}`")), "the README names {program}");
    }
}
