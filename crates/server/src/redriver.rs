//! The job that redrives dead letters by the rules of the configuration, in bounded steps.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::{Bound, Error, Filter, Kind, Namespace, Sweep, SweepCursor, Timestamp};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::RedriveRule;
use crate::http::App;

/// How often every rule is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a rule has seen all dead letters.
const ROUND_PAUSE: Duration = Duration::from_secs(5);
/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// How long the store may take to answer a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages that one step redrives, at most.
const STEP_MESSAGES_MAX: u32 = 1_000;
/// Pages of 200 messages that one step reads, at most.
const STEP_PAGES_MAX: usize = 10;
/// This many failures in a row are a finding.
const FAILURES_MAX: u32 = 3;

/// What a message costs: at a rate of one per minute, a millisecond earns one unit.
const MESSAGE: u64 = 60_000;

/// What an operator should know about rules: those that keep failing, and those that skip dead letters of full shards.
#[derive(Default)]
pub(crate) struct RuleFindings(Mutex<BTreeMap<usize, String>>);

impl RuleFindings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        // No update can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, place: usize, text: Option<String>) {
        let mut texts = self.lock();
        match text {
            Some(text) => drop(texts.insert(place, text)),
            None => drop(texts.remove(&place)),
        }
    }

    /// One text for each rule that has one.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }
}

/// A rule, and how far it has come.
struct Course {
    rule: RedriveRule,
    /// What it may redrive now, in units of which a message costs [`MESSAGE`].
    allowance: u64,
    earned: Instant,
    /// Not before.
    due: Instant,
    next: Option<SweepCursor>,
    failures: u32,
    /// Dead letters that were skipped in this pass, and the bound that is reached.
    skipped: u64,
    full: Option<Bound>,
    /// Whether the last pass skipped some.
    skips: bool,
}

impl Course {
    fn new(rule: RedriveRule, now: Instant) -> Self {
        let (allowance, earned, due) = (MESSAGE, now, now);
        let (next, failures, skipped, full, skips) = (None, 0, 0, None, false);
        Self { rule, allowance, earned, due, next, failures, skipped, full, skips }
    }

    /// How many may be redriven now. What is not used is kept for one second, or for one message.
    fn earn(&mut self, now: Instant) -> u32 {
        let (rate, elapsed) = (u64::from(self.rule.per_minute), now.saturating_duration_since(self.earned));
        let earned = millis(elapsed).saturating_mul(rate);
        self.earned = now;
        self.allowance = self.allowance.saturating_add(earned).min((rate * 1_000).max(MESSAGE));
        u32::try_from(self.allowance / MESSAGE).unwrap_or(u32::MAX).min(STEP_MESSAGES_MAX)
    }
}

/// Runs until the server stops. What the store fails is tried again.
pub(crate) async fn run(app: App, stopping: CancellationToken) {
    let mut courses: Vec<Course> = Vec::new();
    while stopping.run_until_cancelled(sleep(INTERVAL)).await.is_some() {
        let live = app.live();
        adopt(&mut courses, &live.config.redrive, &app);
        for (place, course) in courses.iter_mut().enumerate() {
            let now = Instant::now();
            let allowed = course.earn(now);
            if now < course.due || allowed == 0 {
                continue;
            }
            // A step is not abandoned when the server stops: what the store has changed is to be logged and counted.
            let swept =
                timeout(STEP_TIMEOUT, step(&app, place, course, allowed)).await.unwrap_or_else(|_| {
                    Err(Error::new(
                        Kind::Unavailable,
                        format!("the store did not answer within {STEP_TIMEOUT:?}"),
                    ))
                });
            match swept {
                Ok(swept) => passed(&app, place, course, &swept),
                Err(error) => failed(&app, place, course, &error),
            }
            if stopping.is_cancelled() {
                return;
            }
        }
    }
}

/// Rules that stay keep their course.
fn adopt(courses: &mut Vec<Course>, rules: &[RedriveRule], app: &App) {
    if courses.iter().map(|course| &course.rule).eq(rules) {
        return;
    }
    let mut known = std::mem::take(courses);
    let now = Instant::now();
    courses.extend(rules.iter().map(|rule| {
        let place = known.iter().position(|course| course.rule == *rule);
        place.map_or_else(|| Course::new(rule.clone(), now), |place| known.swap_remove(place))
    }));
    app.rule_findings.lock().clear();
    for course in courses.iter_mut() {
        course.skips = false;
    }
}

/// Redrives what a rule allows now.
async fn step(app: &App, place: usize, course: &Course, allowed: u32) -> Result<Sweep, Error> {
    let rule = &course.rule;
    let died_before = app.now().as_millis().saturating_sub(millis(rule.age));
    let mut filter = Filter::dead()
        .until(Timestamp::from_millis(died_before))
        .redriven_below(rule.times_max)
        .limit(u64::from(allowed))
        .pages(STEP_PAGES_MAX);
    if let Some(topic) = &rule.topic {
        filter = filter.topic(topic);
    }
    if let Some(reason) = rule.reason {
        filter = filter.reason(reason);
    }
    if let Some(next) = course.next {
        filter = filter.after(next);
    }
    let because = format!("{} ({})", name(place), described(rule));
    app.operator(Namespace::Mailbox, "policy").because(because).redrive_where(&filter).await
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name(place: usize) -> String {
    format!("mailbox.redrive[{place}]")
}

fn described(rule: &RedriveRule) -> String {
    let topic = rule.topic.as_ref().map_or("every topic".to_owned(), |topic| format!("topic {topic}"));
    let reason = rule.reason.map(|reason| format!(", reason {}", reason.as_str())).unwrap_or_default();
    format!("{topic}{reason}, at most {} times", rule.times_max)
}

fn passed(app: &App, place: usize, course: &mut Course, swept: &Sweep) {
    let now = Instant::now();
    course.allowance = course.allowance.saturating_sub(swept.changed.saturating_mul(MESSAGE));
    app.meters.redriven(swept.changed);
    app.meters.redriven_by_rule(swept.changed);
    if course.failures >= FAILURES_MAX {
        info!(rule = name(place), "the rule redrives again");
        app.rule_findings.set(place, None);
    }
    course.failures = 0;
    course.skipped += swept.skipped;
    course.full = swept.stopped.or(course.full);
    if swept.pass_ended {
        end_pass(app, place, course);
        (course.next, course.due) = (None, now + ROUND_PAUSE);
    } else {
        (course.next, course.due) = (swept.next, now);
    }
}

/// Reports whether dead letters were skipped in the pass that has ended: one line of the log per change.
fn end_pass(app: &App, place: usize, course: &mut Course) {
    let skipped = std::mem::take(&mut course.skipped);
    let full = course.full.take();
    let text = full.map(|bound| {
        format!(
            "the rule {} ({}) skipped {skipped} dead letters in its last pass: {} ({} of {}); {}",
            name(place),
            described(&course.rule),
            bound.problem(),
            bound.used,
            bound.limit,
            bound.remedy()
        )
    });
    match (course.skips, &text) {
        (false, Some(text)) => warn!(rule = name(place), "{text}"),
        (true, None) => info!(rule = name(place), "the rule skips no dead letters any more"),
        _ => {}
    }
    course.skips = text.is_some();
    app.rule_findings.set(place, text);
}

fn failed(app: &App, place: usize, course: &mut Course, error: &Error) {
    course.failures = course.failures.saturating_add(1);
    course.due = Instant::now() + FAILURE_PAUSE;
    app.meters.rule_failed();
    if course.failures < FAILURES_MAX {
        return;
    }
    let rule = name(place);
    let text = format!(
        "the rule {rule} ({}) failed {} times in a row, the last with: {error}; its dead letters wait",
        described(&course.rule),
        course.failures
    );
    app.rule_findings.set(place, Some(text));
    if course.failures == FAILURES_MAX {
        warn!(rule, %error, "a rule that redrives dead letters keeps failing: it is tried again every few seconds");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Course;
    use crate::config::{Sources, load};

    #[test]
    fn a_rule_earns_what_it_may_redrive() {
        let mut sources = Sources::default();
        let rule = "[[mailbox.redrive]]\ntopic='*'\nage='1s'\nper_minute=120\ntimes_max=1\n";
        sources.file = Some(("oncebox.toml".into(), rule.to_owned()));
        let rule = load(&sources).unwrap().config.redrive.remove(0);
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut course = Course::new(rule, began);
        assert_eq!(course.earn(began), 1, "one at once");
        course.allowance = 0;
        assert_eq!(course.earn(at(499)), 0);
        assert_eq!(course.earn(at(1_000)), 2, "two in a second");
        assert_eq!(course.earn(at(3_600_000)), 2, "those of one second, at most");
    }
}
