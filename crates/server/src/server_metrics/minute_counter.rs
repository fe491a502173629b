//! Event counts over the last minute.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that one bucket covers.
const BUCKET_SECONDS: u64 = 10;
/// Number of buckets: together one minute, of which the newest bucket is still filling.
const BUCKETS: u32 = 6;

/// Counts the events of the last 50 to 60 seconds. Never blocks.
#[derive(Debug, Default)]
pub(super) struct MinuteCounter {
    /// Each bucket: the number of its time slot in the upper half, its count in the lower half.
    buckets: [AtomicU64; BUCKETS as usize],
}

impl MinuteCounter {
    pub(super) fn add(&self, events: u64) {
        self.add_at(current_bucket(), events);
    }

    pub(super) fn count(&self) -> u64 {
        self.count_at(current_bucket())
    }

    fn add_at(&self, bucket: u32, events: u64) {
        let slot = &self.buckets[(bucket % BUCKETS) as usize];
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let added = |packed: u64| {
            let (number, count) = unpack(packed);
            let count = if number == bucket { count } else { 0 };
            Some((u64::from(bucket) << 32) | u64::from(count.saturating_add(events)))
        };
        // Relaxed: no other memory depends on this value.
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    fn count_at(&self, bucket: u32) -> u64 {
        let buckets = self.buckets.iter().map(|slot| unpack(slot.load(Ordering::Relaxed)));
        let recent = buckets.filter(|(number, _)| bucket.wrapping_sub(*number) < BUCKETS);
        recent.map(|(_, count)| u64::from(count)).sum()
    }
}

fn unpack(packed: u64) -> (u32, u32) {
    let upper = u32::try_from(packed >> 32).unwrap_or_default();
    (upper, u32::try_from(packed & u64::from(u32::MAX)).unwrap_or_default())
}

/// Number of the current time slot. It starts above 0, because 0 marks an empty bucket.
fn current_bucket() -> u32 {
    let buckets = oncebox_system::uptime().as_secs() / BUCKET_SECONDS + u64::from(BUCKETS);
    u32::try_from(buckets).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::MinuteCounter;

    #[test]
    fn counts_cover_one_minute() {
        let recent = MinuteCounter::default();
        recent.add_at(10, 1);
        recent.add_at(10, 2);
        recent.add_at(12, 4);
        assert_eq!([9, 10, 12, 15, 16, 17, 18].map(|bucket| recent.count_at(bucket)), [0, 3, 7, 7, 4, 4, 0]);
        recent.add_at(16, 8);
        assert_eq!(recent.count_at(16), 12, "a reused bucket starts at zero");
    }

    #[test]
    fn counts_saturate() {
        let recent = MinuteCounter::default();
        recent.add_at(7, u64::MAX);
        recent.add_at(7, 1);
        assert_eq!(recent.count_at(7), u64::from(u32::MAX));
    }
}
