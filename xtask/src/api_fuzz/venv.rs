//! Schemathesis, of one version, in a place of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

const VERSION: &str = "4.32.5";

/// The program, installed if it is not there yet.
pub(super) fn schemathesis(root: &Path) -> Result<PathBuf> {
    let place = root.join(format!("schemathesis-{VERSION}"));
    let program = place.join("bin/schemathesis");
    if Command::new(&program).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(program);
    }
    println!("api-fuzz: installs schemathesis {VERSION}");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&place).status();
    if !made.is_ok_and(|status| status.success()) {
        let text = "a virtual environment of Python cannot be made: install python3 and python3-venv";
        return Err(Failure::new(text));
    }
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check"])
        .arg(format!("schemathesis=={VERSION}"));
    if pip.status().is_ok_and(|status| status.success()) {
        return Ok(program);
    }
    Err(Failure::new(format!("schemathesis {VERSION} cannot be installed from PyPI: see above")))
}
