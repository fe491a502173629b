//! The expected state of a message and its transitions: a small model of the store contract.

/// The attempts limit that the process under test sets for messages with content.
const ATTEMPTS_MAX: u32 = 10;

/// The state of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageRecord {
    /// Empty while unknown.
    pub(crate) uid: String,
    /// `seen`, `processing`, `done` or `dead`.
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    /// `-` without a retry time, `near` if it passes during a campaign, `far` if it does not.
    pub(crate) retry: String,
    pub(crate) grant: Option<Grant>,
}

/// The latest lease of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) owner: String,
    pub(crate) fence: u64,
    /// When it expires, in milliseconds; zero while unknown.
    pub(crate) until: u64,
    /// `current`, `lost`, or the verdict and outcome of its settlement, such as `ack+done` or `abandon+retrying`.
    pub(crate) end: String,
}

impl MessageRecord {
    /// A message that was just accepted.
    pub(crate) fn accepted(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            state: "processing".to_owned(),
            attempts: 0,
            deliveries: 0,
            retry: "-".to_owned(),
            grant: None,
        }
    }

    /// A ledger key before its first begin.
    pub(crate) fn unrecorded() -> Self {
        Self { state: "seen".to_owned(), ..Self::accepted("") }
    }

    pub(crate) fn lease(&self) -> Option<&Grant> {
        self.grant.as_ref().filter(|grant| grant.end == "current")
    }

    /// Whether this record equals the expected one. An unknown uid or lease end matches any.
    pub(crate) fn matches(&self, expected: &Self) -> bool {
        let mut known = self.clone();
        if expected.uid.is_empty() {
            known.uid.clear();
        }
        if let (Some(own), Some(expected)) = (&mut known.grant, &expected.grant) {
            own.until = if expected.until == 0 { 0 } else { own.until };
        }
        known == *expected
    }

    /// The record with a new lease.
    pub(crate) fn granted(&self, owner: &str, fence: u64, until: u64) -> Self {
        let grant = Grant { owner: owner.to_owned(), fence, until, end: "current".to_owned() };
        let deliveries = self.deliveries + 1;
        Self { deliveries, retry: "-".to_owned(), grant: Some(grant), ..self.clone() }
    }

    /// The record with another end of its lease, if that lease has the fence.
    pub(crate) fn extended(&self, fence: u64, until: u64) -> Self {
        let mut extended = self.clone();
        if let Some(grant) = extended.grant.as_mut().filter(|grant| grant.fence == fence) {
            grant.until = until;
        }
        extended
    }

    /// The record after a settlement, and the settlement's outcome.
    pub(crate) fn settled(&self, verdict: &str, fence: u64, has_content: bool) -> (Self, String) {
        let kind = if matches!(verdict, "near" | "far") { "abandon" } else { verdict };
        let Some(grant) = self.grant.as_ref().filter(|grant| grant.fence == fence) else {
            return (self.clone(), "lost".to_owned());
        };
        if grant.end != "current" {
            let repeated = grant.end.split_once('+').filter(|(ended, _)| *ended == kind);
            return (self.clone(), repeated.map_or("lost", |(_, answer)| answer).to_owned());
        }
        let attempts = self.attempts + u32::from(kind == "abandon");
        let exhausted = has_content && kind == "abandon" && attempts >= ATTEMPTS_MAX;
        let (state, answer, retry) = match kind {
            "ack" => ("done", "done", "-"),
            "release" => (&*self.state, "released", "-"),
            "abandon" if !exhausted => (&*self.state, "retrying", verdict),
            _ => ("dead", "dead", "-"),
        };
        let ended = self.ended(&format!("{kind}+{answer}"));
        (Self { state: state.to_owned(), attempts, retry: retry.to_owned(), ..ended }, answer.to_owned())
    }

    /// The record after an operator action, and the action's outcome; none after an erase.
    pub(crate) fn operated(&self, action: &str) -> (Option<Self>, &'static str) {
        let unchanged = (Some(self.clone()), "unchanged");
        if action == "erase" {
            return (None, "changed");
        }
        let becomes = |state: &str| {
            let ended = self.ended("lost");
            (Some(Self { state: state.to_owned(), retry: "-".to_owned(), ..ended }), "changed")
        };
        match (action, self.state.as_str()) {
            (_, "done") | ("dead" | "cancel", "dead") => unchanged,
            ("dead" | "cancel", _) => becomes("dead"),
            ("processed", _) => becomes("done"),
            ("redrive", "dead") => {
                let (redriven, answer) = becomes("processing");
                (redriven.map(|redriven| Self { attempts: 0, ..redriven }), answer)
            }
            ("processing", "dead" | "seen") => becomes("processing"),
            ("processing", _) if self.lease().is_some() => becomes("processing"),
            _ => unchanged,
        }
    }

    /// The record with its current lease, if any, ended this way.
    fn ended(&self, how: &str) -> Self {
        let mut ended = self.clone();
        if let Some(grant) = ended.grant.as_mut().filter(|grant| grant.end == "current") {
            how.clone_into(&mut grant.end);
        }
        ended
    }
}
