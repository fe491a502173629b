//! A small list of words with small files, and the real list.

use super::*;

const SMALL: &str = r#"
[[word]]
forms = ["attic", "attics"]
write = "segment"
fine = ["attic window"]
[[word]]
forms = ["very old"]
write = "expired"
[[exception]]
word = "attic"
path = "crates/a/src/house.rs"
reason = "it is about houses"
"#;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn lines(text: &str) -> Vec<(usize, usize)> {
    List::parse(SMALL).unwrap().search().hits(text)
}

#[test]
fn identifiers_are_split_into_words() {
    for (line, expected) in [
        ("fn ready_topics()", &["fn", "ready", "topics"][..]),
        ("ReadyTopics9x", &["Ready", "Topics", "x"]),
        ("HTTPServer parseURL MAX_LEN", &["HTTP", "Server", "parse", "URL", "MAX", "LEN"]),
        ("größer, 12", &["gr", "er"]),
        ("", &[]),
    ] {
        assert_eq!(parts(line).collect::<Vec<_>>(), expected, "{line}");
    }
}

#[test]
fn every_form_is_found_in_code_and_prose() {
    assert_eq!(
        lines("let attic = Attics::new(); // ATTIC\n\nfn clean_attic()"),
        [(0, 1), (0, 1), (0, 1), (0, 3)]
    );
    assert_eq!(lines("atticus, static"), []);
}

#[test]
fn a_form_of_two_words_is_found_across_lines() {
    assert_eq!(lines("// very\n// old\nfn very_old() {}\n// very, very good; old"), [(1, 2), (1, 3)]);
}

#[test]
fn allowed_pairs_are_skipped() {
    assert_eq!(
        lines("an attic window, AtticWindow\nthe attic\n// window; attics window; attic"),
        [(0, 3), (0, 3)]
    );
}

#[test]
fn words_are_reported_with_advice_unless_the_file_is_an_exception() {
    let files = [
        file(LIST, SMALL),
        file("crates/a/src/house.rs", "// attic"),
        file("crates/a/src/other.rs", "// attic"),
        file("crates/a/page.html", "attic"),
        file("docs/guide/a.md", "Old.\n\nThe attics."),
        file("CHANGELOG.md", "attic"),
    ];
    let text = "`attic` is not a word of this project: write segment";
    let expected = [("crates/a/src/other.rs", 1), ("docs/guide/a.md", 3)];
    assert_eq!(check(&files).unwrap(), expected.map(|(path, line)| Finding::at(path, line, text)));
}

#[test]
fn an_exception_needs_a_listed_word_that_the_file_contains() {
    let gone = [file(LIST, SMALL), file("crates/a/src/house.rs", "// cellar")];
    let error = check(&gone).unwrap_err().to_string();
    assert!(error.ends_with("`attic` is not in crates/a/src/house.rs: remove the exception"), "{error}");
    let unknown = SMALL.replace("word = \"attic\"", "word = \"cellar\"");
    assert!(List::parse(&unknown).unwrap_err().contains("`cellar`"));
}

#[test]
fn the_real_list_has_forms_of_one_or_two_lowercase_words() {
    let files = crate::workspace::Workspace::locate().unwrap().files().unwrap();
    let text = &files.iter().find(|file| file.path == LIST).unwrap().text;
    for word in List::parse(text).unwrap().word {
        assert!(!word.write.is_empty());
        for pair in &word.fine {
            let first = pair.split_once(' ').map(|(first, _)| first.to_owned());
            assert!(word.forms.contains(&first.unwrap()), "{pair} does not start with a form");
        }
        for form in word.forms.iter().chain(&word.fine) {
            assert!(matches!(form.split(' ').count(), 1 | 2), "{form}");
            assert_eq!(parts(form).collect::<Vec<_>>().join(" "), form.to_ascii_lowercase(), "{form}");
        }
    }
}
