//! Checks that relative links in Markdown lead to a file or a folder of the workspace.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use crate::workspace::File;

/// Checks all Markdown files.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let known = places(files);
    let is_markdown =
        |file: &&File| Path::new(&file.path).extension().is_some_and(|extension| extension == "md");
    let markdown = files.iter().filter(is_markdown);
    let findings = markdown.flat_map(|file| {
        let dead = |(number, line): (usize, &str)| {
            let targets = targets(line).filter(|target| is_relative(target));
            let dead = targets
                .filter(|target| !resolve(&file.path, target).is_some_and(|path| known.contains(&path)));
            dead.map(|target| Finding::error(file, number, format!("the link `{target}` leads nowhere")))
                .collect::<Vec<_>>()
        };
        file.lines().flat_map(dead).collect::<Vec<_>>()
    });
    findings.collect()
}

/// The paths of all files and folders.
fn places(files: &[File]) -> BTreeSet<String> {
    let mut places = BTreeSet::from([String::new()]);
    for file in files {
        let ends = file.path.match_indices('/').map(|(index, _)| index).chain([file.path.len()]);
        places.extend(ends.map(|end| file.path[..end].to_owned()));
    }
    places
}

/// The targets of the inline links in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.contains(':')
}

/// The path that a link in a file leads to; none if it leaves the workspace.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split_once('#').map_or(target, |(path, _)| path);
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            segment => segments.push(segment),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let text = "[a](b.md), [b](../crates/x/src/lib.rs#L3), [c](../crates/) and [d](https://example.org/x)\n\
                    [e](#here)\n[f](gone.md) [g](../../etc) [h](../crates/x/src/gone.rs)\n";
        let files = [
            file("docs/a.md", text),
            file("docs/b.md", ""),
            file("crates/x/src/lib.rs", "//! [x](nothing.md)"),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|finding| (finding.line, finding.text)).collect();
        let dead = |target: &str| (3, format!("the link `{target}` leads nowhere"));
        assert_eq!(found, ["gone.md", "../../etc", "../crates/x/src/gone.rs"].map(dead));
    }
}
