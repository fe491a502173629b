//! Background job that redrives dead letters according to the configured rules, in bounded steps.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::{
    Error, ErrorKind, Timestamp,
    health::Bound,
    operator::{Sweep, SweepCursor, SweepFilter},
    store::Clock,
};
use oncebox_system::SystemClock;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::RedriveRule;
use crate::config_handle::ConfigHandle;
use crate::server_metrics::ServerMetrics;

/// Interval at which the job visits every rule.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a rule has passed over all dead letters.
const ROUND_PAUSE: Duration = Duration::from_secs(5);
/// Pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Maximum time for the store to answer a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of messages that one step redrives.
const STEP_MESSAGES_MAX: u32 = 1_000;
/// Maximum number of pages of 200 messages that one step reads.
const STEP_PAGES_MAX: usize = 10;
/// After this many consecutive failures the rule is reported as a finding.
const FAILURES_MAX: u32 = 3;

/// Tokens that redriving one message costs. At a rate of one message per minute, a rule gains one token per
/// millisecond.
const TOKENS_PER_MESSAGE: u64 = 60_000;

/// Findings about redrive rules: rules that keep failing, and rules that skip dead letters of full shards.
#[derive(Default)]
pub(crate) struct RuleFindings(Mutex<BTreeMap<usize, String>>);

impl RuleFindings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        // No update can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, index: usize, text: Option<String>) {
        let mut texts = self.lock();
        match text {
            Some(text) => drop(texts.insert(index, text)),
            None => drop(texts.remove(&index)),
        }
    }

    /// The texts of all findings, at most one per rule.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }
}

/// A rule and its progress.
struct RuleState {
    rule: RedriveRule,
    /// Token bucket: redriving a message costs [`TOKENS_PER_MESSAGE`].
    tokens: u64,
    refilled_at: Instant,
    /// Earliest time of the next step.
    due: Instant,
    next: Option<SweepCursor>,
    failures: u32,
    /// Dead letters skipped in the current pass, and the bound that was reached.
    skipped: u64,
    full_bound: Option<Bound>,
    /// Whether the last pass skipped dead letters.
    skipped_last_pass: bool,
}

impl RuleState {
    fn new(rule: RedriveRule, now: Instant) -> Self {
        let (tokens, refilled_at, due) = (TOKENS_PER_MESSAGE, now, now);
        let (next, failures, skipped, full_bound, skipped_last_pass) = (None, 0, 0, None, false);
        Self { rule, tokens, refilled_at, due, next, failures, skipped, full_bound, skipped_last_pass }
    }

    /// Refills the token bucket and returns how many messages may be redriven now. The bucket holds the tokens of one
    /// second, or of one message if that is more.
    fn refill(&mut self, now: Instant) -> u32 {
        let (rate, elapsed) =
            (u64::from(self.rule.per_minute), now.saturating_duration_since(self.refilled_at));
        let gained = millis(elapsed).saturating_mul(rate);
        self.refilled_at = now;
        self.tokens = self.tokens.saturating_add(gained).min((rate * 1_000).max(TOKENS_PER_MESSAGE));
        u32::try_from(self.tokens / TOKENS_PER_MESSAGE).unwrap_or(u32::MAX).min(STEP_MESSAGES_MAX)
    }
}

/// The job, and what it uses of the server.
pub(crate) struct Redriver<'a> {
    pub(crate) config: &'a ConfigHandle,
    pub(crate) metrics: &'a ServerMetrics,
    pub(crate) findings: &'a RuleFindings,
    pub(crate) clock: &'a SystemClock,
}

impl Redriver<'_> {
    /// Runs until the server stops. Failed steps are retried.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let mut states: Vec<RuleState> = Vec::new();
        while stopping.run_until_cancelled(sleep(INTERVAL)).await.is_some() {
            let active = self.config.get();
            self.apply_rules(&mut states, &active.config.redrive);
            for (index, state) in states.iter_mut().enumerate() {
                let now = Instant::now();
                let allowed = state.refill(now);
                if now < state.due || allowed == 0 {
                    continue;
                }
                // A step is not cancelled when the server stops: changes in the store must be logged and counted.
                let swept =
                    timeout(STEP_TIMEOUT, self.step(index, state, allowed)).await.unwrap_or_else(|_| {
                        Err(Error::new(
                            ErrorKind::Unavailable,
                            format!("the store did not answer within {STEP_TIMEOUT:?}"),
                        ))
                    });
                match swept {
                    Ok(swept) => self.step_succeeded(index, state, &swept),
                    Err(error) => self.step_failed(index, state, &error),
                }
                if stopping.is_cancelled() {
                    return;
                }
            }
        }
    }

    /// Replaces the rules after a reload; unchanged rules keep their progress.
    fn apply_rules(&self, states: &mut Vec<RuleState>, rules: &[RedriveRule]) {
        if states.iter().map(|state| &state.rule).eq(rules) {
            return;
        }
        let mut known = std::mem::take(states);
        let now = Instant::now();
        states.extend(rules.iter().map(|rule| {
            let index = known.iter().position(|state| state.rule == *rule);
            index.map_or_else(|| RuleState::new(rule.clone(), now), |index| known.swap_remove(index))
        }));
        self.findings.lock().clear();
        for state in states.iter_mut() {
            state.skipped_last_pass = false;
        }
    }

    /// Redrives up to `allowed` messages that match the rule.
    async fn step(&self, index: usize, state: &RuleState, allowed: u32) -> Result<Sweep, Error> {
        let rule = &state.rule;
        let dead_before = self.clock.now().as_millis().saturating_sub(millis(rule.age));
        let mut filter = SweepFilter::dead()
            .until(Timestamp::from_millis(dead_before))
            .redriven_below(rule.times_max)
            .limit(u64::from(allowed))
            .pages(STEP_PAGES_MAX);
        if let Some(topic) = &rule.topic {
            filter = filter.topic(topic);
        }
        if let Some(reason) = rule.reason {
            filter = filter.reason(reason);
        }
        if let Some(next) = state.next {
            filter = filter.after(next);
        }
        let because = format!("{} ({})", rule_name(index), described(rule));
        self.config.get().mailbox.operator("policy").because(because).redrive_where(&filter).await
    }

    fn step_succeeded(&self, index: usize, state: &mut RuleState, swept: &Sweep) {
        let now = Instant::now();
        state.tokens = state.tokens.saturating_sub(swept.changed.saturating_mul(TOKENS_PER_MESSAGE));
        self.metrics.redriven(swept.changed);
        self.metrics.redriven_by_rule(swept.changed);
        if state.failures >= FAILURES_MAX {
            info!(rule = rule_name(index), "redrive rule recovered");
            self.findings.set(index, None);
        }
        state.failures = 0;
        state.skipped += swept.skipped;
        state.full_bound = swept.stopped.or(state.full_bound);
        if swept.pass_ended {
            self.end_pass(index, state);
            (state.next, state.due) = (None, now + ROUND_PAUSE);
        } else {
            (state.next, state.due) = (swept.next, now);
        }
    }

    /// Reports dead letters skipped in the pass that has ended; logs only changes.
    fn end_pass(&self, index: usize, state: &mut RuleState) {
        let skipped = std::mem::take(&mut state.skipped);
        let full_bound = state.full_bound.take();
        let text = full_bound.map(|bound| {
            format!(
                "the rule {} ({}) skipped {skipped} dead letters in its last pass: {} ({} of {}); {}",
                rule_name(index),
                described(&state.rule),
                bound.problem(),
                bound.used,
                bound.limit,
                bound.remedy()
            )
        });
        match (state.skipped_last_pass, &text) {
            (false, Some(text)) => warn!(rule = rule_name(index), "{text}"),
            (true, None) => info!(rule = rule_name(index), "redrive rule no longer skips dead letters"),
            _ => {}
        }
        state.skipped_last_pass = text.is_some();
        self.findings.set(index, text);
    }

    fn step_failed(&self, index: usize, state: &mut RuleState, error: &Error) {
        state.failures = state.failures.saturating_add(1);
        state.due = Instant::now() + FAILURE_PAUSE;
        self.metrics.rule_failed();
        if state.failures < FAILURES_MAX {
            return;
        }
        let rule = rule_name(index);
        let text = format!(
            "the rule {rule} ({}) failed {} times in a row, last error: {error}; its dead letters are not redriven",
            described(&state.rule),
            state.failures
        );
        self.findings.set(index, Some(text));
        if state.failures == FAILURES_MAX {
            warn!(rule, %error, "redrive rule keeps failing, retrying every 5 s");
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn rule_name(index: usize) -> String {
    format!("mailbox.redrive[{index}]")
}

fn described(rule: &RedriveRule) -> String {
    let topic = rule.topic.as_ref().map_or("every topic".to_owned(), |topic| format!("topic {topic}"));
    let reason = rule.reason.map(|reason| format!(", reason {}", reason.as_str())).unwrap_or_default();
    format!("{topic}{reason}, at most {} times", rule.times_max)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::RuleState;
    use crate::config::{Sources, load};

    #[test]
    fn a_rule_redrives_at_its_configured_rate() {
        let mut sources = Sources::default();
        let rule = "[[mailbox.redrive]]\ntopic='*'\nage='1s'\nper_minute=120\ntimes_max=1\n";
        sources.file = Some(("oncebox.toml".into(), rule.to_owned()));
        let rule = load(&sources).unwrap().config.redrive.remove(0);
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut state = RuleState::new(rule, began);
        assert_eq!(state.refill(began), 1, "one message immediately");
        state.tokens = 0;
        assert_eq!(state.refill(at(499)), 0);
        assert_eq!(state.refill(at(1_000)), 2, "two per second");
        assert_eq!(state.refill(at(3_600_000)), 2, "at most the tokens of one second");
    }
}
