//! The README's commands for `curl` are run as they stand there.

use std::process::Command;

use super::rig::on_every_store;

const README: &str = include_str!("../../../../../README.md");

/// The blocks of shell that call the server.
fn blocks() -> Vec<&'static str> {
    let blocks = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("localhost:7420")).collect()
}

#[test]
fn what_the_readme_says_to_type_works() {
    on_every_store(&[], |server| {
        let mut told = String::new();
        for block in blocks() {
            let script = block.replace("localhost:7420", &server.address);
            let output = Command::new("sh").args(["-e", "-c", &script]).output().expect("there is a shell");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{script}\n{stderr}");
            told.push_str(&String::from_utf8_lossy(&output.stdout));
        }
        let expected = [
            r#""duplicate":false"#,
            r#""duplicate":true"#,
            r#"{"ok":true}"#,
            r#""status":"Acquired""#,
            r#"{"status":"Processed"}"#,
            r#""status":"Processed","attempts":1"#,
        ];
        let mut rest = &*told;
        for text in expected {
            let at = rest.find(text).unwrap_or_else(|| panic!("{text} in its turn: {told}"));
            rest = &rest[at + text.len()..];
        }
        assert!(!told.contains("\"code\""), "nothing is refused: {told}");
    });
}

/// Both programs come with the one command: the server becomes the second one with amnesia.
#[test]
fn what_the_readme_says_to_install_is_there() {
    let path = README.split("cargo install --path ").nth(1).and_then(|rest| rest.split(' ').next());
    let path = path.expect("the README says how to install it");
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(workspace.join(path).join("Cargo.toml")).expect("a manifest");
    for program in ["oncebox", "oncebox-amnesia"] {
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{program}\"")), "{program}");
        assert!(README.contains(&format!("`{program}`")), "the README names {program}");
    }
}
