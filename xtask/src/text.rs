//! Word search in a line.

/// Whether `line` contains `word` as a whole word, not next to a letter, digit or underscore.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let free_before = !word.starts_with(joins) || !before.is_some_and(joins);
        let free_after = !word.ends_with(joins) || !after.is_some_and(joins);
        free_before && free_after
    })
}

fn joins(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        assert!(has_word("use tokio::sync;", "tokio"));
        assert!(has_word("panic!(1)", "panic!"));
        assert!(!has_word("use tokio_util::sync;", "tokio"));
        assert!(!has_word("my_panic!(1)", "panic!"));
        assert!(has_word("my_panic!(panic!())", "panic!"));
    }
}
