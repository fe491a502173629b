//! Clients that are generated from the description that the server serves. The guide's page on clients has the same commands.

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
/// What both programs say in the end.
const DONE: &str = "sent, received, acknowledged\n";

/// A directory inside another, with the description of a server and some files in it.
fn workplace(inside: &Path, files: &[(&str, &str)]) -> TempDir {
    let place = TempDir::new_in(inside).expect("a directory");
    let server = Server::start(Store::Memory, &[]);
    fs::write(place.path().join("openapi.json"), server.get("/openapi.json").text()).expect("a file");
    for (name, content) in files {
        fs::write(place.path().join(name), content).expect("a file");
    }
    place
}

/// `openapi-typescript` and `openapi-fetch` take the description: the types are strict, and the client works.
#[test]
fn a_typescript_client_of_the_description_sends_receives_and_acknowledges() {
    let tools = TYPESCRIPT.provide();
    let place = workplace(
        &tools,
        &[
            ("package.json", include_str!("../../../clients/typescript/package.json")),
            ("tsconfig.json", include_str!("../../../clients/typescript/tsconfig.json")),
            ("client.ts", include_str!("../../../clients/typescript/client.ts")),
        ],
    );
    let node = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("node");
        run(command.arg(tools.join(script)).args(arguments).current_dir(place.path()))
    };
    node("node_modules/openapi-typescript/bin/cli.js", &["openapi.json", "--output", "api.d.ts"]);
    node("node_modules/typescript/bin/tsc", &[]);
    on_every_store(&[], |server| {
        let url = format!("http://{}", server.address);
        let client = place.path().join("out/client.js");
        assert_eq!(run(Command::new("node").arg(client).args([&*url, "typescript"])), DONE);
    });
}

/// `openapi-python-client` takes the whole description without a warning, all of the package can be imported, and it works.
#[test]
fn a_python_client_of_the_description_sends_receives_and_acknowledges() {
    let tools = PYTHON.provide();
    let place = workplace(
        &tools,
        &[
            ("generator.yml", include_str!("../../../clients/python/generator.yml")),
            ("client.py", include_str!("../../../clients/python/client.py")),
        ],
    );
    let mut generate = Command::new(tools.join("bin/openapi-python-client"));
    generate.args(["generate", "--path", "openapi.json", "--output-path", "oncebox_api", "--meta", "none"]);
    run(generate.args(["--config", "generator.yml", "--fail-on-warning"]).current_dir(place.path()));
    let python = tools.join("bin/python");
    run(Command::new(&python).args(["-m", "compileall", "-q", "oncebox_api"]).current_dir(place.path()));
    on_every_store(&[], |server| {
        let url = format!("http://{}", server.address);
        let mut client = Command::new(&python);
        client.args(["client.py", &url, "python"]).current_dir(place.path());
        assert_eq!(run(&mut client), DONE);
    });
}
