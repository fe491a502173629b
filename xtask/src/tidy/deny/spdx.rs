//! Evaluates SPDX licence expressions against the allowed licences.
//!
//! Ids are compared literally, without a table of all licences: a misspelt id is not allowed.

/// Whether the allowed licences satisfy `expression`: one side of an `OR`, both sides of an `AND`. A licence with an
/// exception must be allowed as a whole (`Apache-2.0 WITH LLVM-exception`). `/` is an old form of `OR`.
pub(super) fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let value = parser.either()?;
    match parser.peek() {
        None => Ok(value),
        Some(word) => Err(format!("unexpected `{word}`")),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    /// Terms with `OR` between them, which binds weakest.
    fn either(&mut self) -> Result<bool, String> {
        let mut value = self.both()?;
        while self.accept("OR") {
            // Parse both sides in any case.
            value |= self.both()?;
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut value = self.one()?;
        while self.accept("AND") {
            value &= self.one()?;
        }
        Ok(value)
    }

    /// A licence, or an expression in parentheses.
    fn one(&mut self) -> Result<bool, String> {
        if self.accept("(") {
            let value = self.either()?;
            return if self.accept(")") { Ok(value) } else { Err("missing `)`".to_owned()) };
        }
        let licence = self.id()?;
        if self.accept("WITH") {
            let exception = self.id()?;
            return Ok((self.allowed)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.allowed)(licence))
    }

    fn id(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some(word) if !["AND", "OR", "WITH", "(", ")"].contains(&word) => {
                self.next += 1;
                Ok(word)
            }
            Some(word) => Err(format!("expected a licence, found `{word}`")),
            None => Err("expected a licence at the end".to_owned()),
        }
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(allowed: &[&str], expression: &str) -> Result<bool, String> {
        satisfied(expression, &|id| allowed.contains(&id))
    }

    #[test]
    fn one_side_of_or_and_both_sides_of_and_are_needed() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0-only", false),
            ("GPL-3.0-only AND MIT", false),
        ] {
            assert_eq!(with(&["MIT", "ISC"], expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn and_binds_before_or_and_parentheses_before_both() {
        assert_eq!(with(&["MIT"], "MIT OR ISC AND Zlib"), Ok(true));
        assert_eq!(with(&["MIT"], "(MIT OR ISC) AND Zlib"), Ok(false));
        assert_eq!(with(&["MIT", "Zlib"], "(MIT OR ISC) AND Zlib"), Ok(true));
        assert_eq!(with(&["Zlib"], "((MIT OR (ISC AND Zlib)) OR Zlib)"), Ok(true));
    }

    #[test]
    fn a_licence_with_an_exception_must_be_allowed_as_a_whole() {
        let expression = "Apache-2.0 WITH LLVM-exception";
        assert_eq!(with(&["Apache-2.0"], expression), Ok(false));
        assert_eq!(with(&[expression], expression), Ok(true));
        assert_eq!(with(&["MIT"], "Apache-2.0 WITH LLVM-exception OR MIT"), Ok(true));
    }

    #[test]
    fn a_broken_expression_is_an_error() {
        for expression in
            ["", "MIT OR", "OR MIT", "MIT ISC", "(MIT", "MIT)", "MIT WITH", "MIT WITH AND", "()"]
        {
            with(&["MIT"], expression).unwrap_err();
        }
    }
}
