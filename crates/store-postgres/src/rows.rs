//! The rows of both tables: their columns, reading and writing.

mod cells;
pub(crate) mod columns;
mod input;
mod read;
mod write;

pub(crate) use cells::Cells;
pub(crate) use columns::{LeaseArrays, LeaseRow, MessageArrays, Row};
pub(crate) use input::{INPUT_COLUMNS, Item, MessageInput};
pub(crate) use read::{Message, ReadContent, delivery, fence};
pub(crate) use write::{lease_row, maintenance_class, push_message};
