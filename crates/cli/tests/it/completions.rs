//! `oncebox completions`.

use crate::rig::run;

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["redrive", "visibility", "explain"] {
            assert!(ran.stdout.contains(word), "{shell} completes {word}");
        }
    }
}
