//! The operations of the port that name their messages.

use oncebox_core::machine::Machine;
use oncebox_core::{
    Accepted, Begin, Begun, Error, Extended, Extension, NewMessage, Observation, Observed, Operated, Order,
    Settled, Settlement,
};

use crate::body::with_body;
use crate::call::Call;
use crate::rows::Rows;
use crate::targets::Targets;

/// Each of these decides its items in order; see the method of the same name of [`oncebox_core::Store`]. If nothing can
/// be added ([`crate::Admission::Full`]), the bound in the outcome is the machine's: the store puts its own there.
impl<R: Rows> Call<'_, R> {
    /// Records that keys were observed.
    pub async fn observe(&mut self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.decide_each(observations, |targets, item| targets.add_key(&item.key), Machine::observe).await
    }

    /// Accepts messages.
    pub async fn accept(&mut self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.decide_each(messages, Targets::add_new, |machine, context, item| {
            machine.accept(context, &with_body(item))
        })
        .await
    }

    /// Leases keys that have no content.
    pub async fn begin(&mut self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.decide_each(begins, |targets, item| targets.add_key(&item.key), Machine::begin).await
    }

    /// Settles deliveries.
    pub async fn settle(&mut self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        self.decide_each(settlements, |targets, item| targets.add_uid(item.uid), Machine::settle).await
    }

    /// Extends leases.
    pub async fn extend(&mut self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.decide_each(extensions, |targets, item| targets.add_uid(item.uid), Machine::extend).await
    }

    /// Executes an operator's orders.
    pub async fn operate(&mut self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.decide_each(orders, Targets::add_order, Machine::operate).await
    }
}
