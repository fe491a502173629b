//! Rows of both tables: their columns, how they are read and how they are written.

mod cells;
pub(crate) mod columns;
mod given;
mod read;
mod write;

pub(crate) use cells::Cells;
pub(crate) use columns::{LeaseArrays, LeaseRow, MessageArrays, Row};
pub(crate) use given::{GIVEN, Given, Item};
pub(crate) use read::{Message, ReadContent, delivery, fence};
pub(crate) use write::{lease_row, push_message, shelf};
