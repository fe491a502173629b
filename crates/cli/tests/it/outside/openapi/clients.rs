//! Clients generated from the server's OpenAPI description. The guide page on clients has the same commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::super::rig::{Server, Store, on_every_store};
use super::tools::{NPM, PIP, Tools, run};

const TYPESCRIPT: Tools = Tools {
    name: "typescript-client",
    files: &[
        ("package.json", include_str!("../../../clients/typescript/package.json")),
        ("package-lock.json", include_str!("../../../clients/typescript/package-lock.json")),
    ],
    commands: NPM,
};
const PYTHON: Tools = Tools {
    name: "python-client",
    files: &[("requirements.txt", include_str!("../../../clients/python/requirements.txt"))],
    commands: PIP,
};
/// The output of both programs on success.
const DONE: &str = "sent, received, acknowledged\n";

/// Creates a directory with the description of a server and these files.
fn work_dir(inside: &Path, files: &[(&str, &str)]) -> TempDir {
    let work_dir = TempDir::new_in(inside).expect("a directory");
    let server = Server::start(Store::Memory, &[]);
    fs::write(work_dir.path().join("openapi.json"), server.get("/openapi.json").text()).expect("a file");
    for (name, content) in files {
        fs::write(work_dir.path().join(name), content).expect("a file");
    }
    work_dir
}

/// `openapi-typescript` and `openapi-fetch` accept the description: the types are strict, and the client works.
#[test]
fn a_generated_typescript_client_sends_receives_and_acknowledges() {
    let tools = TYPESCRIPT.provide();
    let work_dir = work_dir(
        &tools,
        &[
            ("package.json", include_str!("../../../clients/typescript/package.json")),
            ("tsconfig.json", include_str!("../../../clients/typescript/tsconfig.json")),
            ("client.ts", include_str!("../../../clients/typescript/client.ts")),
        ],
    );
    let node = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("node");
        run(command.arg(tools.join(script)).args(arguments).current_dir(work_dir.path()))
    };
    node("node_modules/openapi-typescript/bin/cli.js", &["openapi.json", "--output", "api.d.ts"]);
    node("node_modules/typescript/bin/tsc", &[]);
    on_every_store(&[], |server| {
        let url = format!("http://{}", server.address);
        let client = work_dir.path().join("out/client.js");
        assert_eq!(run(Command::new("node").arg(client).args([&*url, "typescript"])), DONE);
    });
}

/// The tool `openapi-python-client` accepts the whole description without a warning, every module can be imported, and
/// the client works.
#[test]
fn a_generated_python_client_sends_receives_and_acknowledges() {
    let tools = PYTHON.provide();
    let work_dir = work_dir(
        &tools,
        &[
            ("generator.yml", include_str!("../../../clients/python/generator.yml")),
            ("client.py", include_str!("../../../clients/python/client.py")),
        ],
    );
    let mut generate = Command::new(tools.join("bin/openapi-python-client"));
    generate.args(["generate", "--path", "openapi.json", "--output-path", "oncebox_api", "--meta", "none"]);
    run(generate.args(["--config", "generator.yml", "--fail-on-warning"]).current_dir(work_dir.path()));
    let python = tools.join("bin/python");
    run(Command::new(&python).args(["-m", "compileall", "-q", "oncebox_api"]).current_dir(work_dir.path()));
    on_every_store(&[], |server| {
        let url = format!("http://{}", server.address);
        let mut client = Command::new(&python);
        client.args(["client.py", &url, "python"]).current_dir(work_dir.path());
        assert_eq!(run(&mut client), DONE);
    });
}
