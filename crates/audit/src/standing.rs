//! How a message stands as far as a process has told, and what calls make of it: the contract once more, in small.

/// Deliveries that may end badly, as the process under test sets it for messages with content.
const ATTEMPTS_MAX: u32 = 10;

/// One message at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Empty while it is not known yet.
    pub(crate) uid: String,
    /// `seen`, `processing`, `done` or `dead`.
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    /// `-`, `near` or `far`: whether it waits for a retry time, and whether that passes during a campaign.
    pub(crate) retry: String,
    pub(crate) grant: Option<Grant>,
}

/// The newest lease of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) owner: String,
    pub(crate) fence: u64,
    /// When it ends by itself, in milliseconds; zero while that is not known yet.
    pub(crate) until: u64,
    /// `current`, `lost`, or how it was settled and what that answered: `ack+done`, `abandon+retrying`, …
    pub(crate) end: String,
}

impl Standing {
    /// Just accepted.
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

    /// A key that nobody has recorded before it was begun.
    pub(crate) fn unseen() -> Self {
        Self { state: "seen".to_owned(), ..Self::accepted("") }
    }

    pub(crate) fn lease(&self) -> Option<&Grant> {
        self.grant.as_ref().filter(|grant| grant.end == "current")
    }

    /// Whether this is what was told, where uids and lease ends that were not told fit any.
    pub(crate) fn fits(&self, told: &Self) -> bool {
        let mut known = self.clone();
        if told.uid.is_empty() {
            known.uid.clear();
        }
        if let (Some(own), Some(told)) = (&mut known.grant, &told.grant) {
            own.until = if told.until == 0 { 0 } else { own.until };
        }
        known == *told
    }

    /// With a new lease.
    pub(crate) fn granted(&self, owner: &str, fence: u64, until: u64) -> Self {
        let grant = Grant { owner: owner.to_owned(), fence, until, end: "current".to_owned() };
        let deliveries = self.deliveries + 1;
        Self { deliveries, retry: "-".to_owned(), grant: Some(grant), ..self.clone() }
    }

    /// With its lease, if it is the current one, ending at another moment.
    pub(crate) fn extended(&self, fence: u64, until: u64) -> Self {
        let mut extended = self.clone();
        if let Some(grant) = extended.grant.as_mut().filter(|grant| grant.fence == fence) {
            grant.until = until;
        }
        extended
    }

    /// What a settlement makes of it, and answers.
    pub(crate) fn settled(&self, verdict: &str, fence: u64, has_content: bool) -> (Self, String) {
        let kind = if matches!(verdict, "near" | "far") { "abandon" } else { verdict };
        let Some(grant) = self.grant.as_ref().filter(|grant| grant.fence == fence) else {
            return (self.clone(), "lost".to_owned());
        };
        if grant.end != "current" {
            let again = grant.end.split_once('+').filter(|(ended, _)| *ended == kind);
            return (self.clone(), again.map_or("lost", |(_, answer)| answer).to_owned());
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

    /// What an order makes of it, and answers; nothing remains of what is erased.
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

    /// With its lease, if one is current, ended this way.
    fn ended(&self, how: &str) -> Self {
        let mut ended = self.clone();
        if let Some(grant) = ended.grant.as_mut().filter(|grant| grant.end == "current") {
            how.clone_into(&mut grant.end);
        }
        ended
    }
}
