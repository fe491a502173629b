//! The migrations from one version of the tables to the next.

use std::fmt::Write as _;

use super::Schema;
use crate::sql;

/// All migrations. A released migration is never changed; the next version adds one.
pub(super) const MIGRATIONS: Migrations =
    Migrations(&[concat!(include_str!("../../sql/schema.sql"), "\n", include_str!("../../sql/work_1.sql"))]);

/// Each migration upgrades from the version before it; the first one creates the tables.
pub(super) struct Migrations(pub(super) &'static [&'static str]);

impl Migrations {
    /// The version after the last migration.
    #[expect(clippy::cast_possible_truncation, reason = "there are few migrations")]
    pub(super) const fn version(&self) -> u32 {
        self.0.len() as u32
    }

    /// The script that creates the tables from scratch.
    pub(super) fn script(&self, schema: &Schema) -> String {
        format!("{}\n{}", creation(schema), self.script_after(schema, 0))
    }

    /// The names and bodies of all functions, without the schema's name.
    pub(super) fn functions(&self) -> Vec<(String, String)> {
        let mut functions = Vec::new();
        for step in self.0 {
            let text = sql::complete(step, "{schema}");
            for rest in text.split("create function {schema}.").skip(1) {
                let name = rest.split('(').next().unwrap_or_default();
                // The body is between the first two dollar quotes.
                if let Some(body) = rest.split("$oncebox$").nth(1) {
                    functions.push((name.to_owned(), body.to_owned()));
                }
            }
        }
        functions
    }

    /// The script that migrates the tables from a version to the last one and records every version.
    pub(super) fn script_after(&self, schema: &Schema, version: u32) -> String {
        let quoted = schema.quoted();
        let mut script = String::new();
        for (step, version) in self.0.iter().zip(1..).skip(version as usize) {
            let step = sql::complete(step, &quoted);
            write!(
                script,
                "{step}\ninsert into {quoted}.meta (name, value) values ('version', '{version}')\n  \
                 on conflict (name) do update set value = excluded.value;\n"
            )
            .expect("writing to a string cannot fail");
        }
        script
    }
}

pub(super) fn creation(schema: &Schema) -> String {
    format!("create schema if not exists {};\n", schema.quoted())
}
