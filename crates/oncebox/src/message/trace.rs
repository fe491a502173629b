//! Attaches the trace of the sender to a message.

use super::Message;
use crate::telemetry::{TRACE_PARENT, TraceContext};

impl Message {
    /// Attaches the current trace to the message, unless its sender has attached one.
    pub(crate) fn with_current_trace(self, context: &dyn TraceContext) -> Self {
        if self.attributes.get(TRACE_PARENT).is_some() {
            return self;
        }
        match context.current() {
            // If the message cannot take another attribute, it is sent without a trace.
            Some(trace_parent) => self.try_attribute(TRACE_PARENT, &trace_parent),
            None => self,
        }
    }
}
