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
