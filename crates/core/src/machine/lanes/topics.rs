//! Data of a topic across its lanes: counts, first messages, and the workers that hold leases.

use super::{ClassCounts, Counts, Lane, Lanes, Shard, Slot, WorkerName};

impl Lanes {
    /// The counts of one shard of a topic, or of all.
    pub(in crate::machine) fn topic_counts(&self, topic: Slot, shard: Option<Shard>) -> Counts {
        let lanes = self.topics[topic].lanes.iter().filter(|(of, _)| shard.is_none_or(|shard| shard == **of));
        lanes.fold(ClassCounts::default(), |sum, (_, lane)| sum.plus(self.rows[*lane].counts)).counts()
    }

    /// The number of unfinished messages of a lane.
    pub(in crate::machine) fn unfinished(&self, lane: Slot) -> u64 {
        let Lane { counts, unloaded, .. } = &self.rows[lane];
        let Counts { ready, waiting, leased, .. } = counts.counts();
        ready + waiting + leased + unloaded
    }

    /// Sets the number of unfinished messages that are not in memory.
    pub(in crate::machine) fn set_unloaded(&mut self, lane: Slot, unfinished: u64) {
        self.rows[lane].unloaded = unfinished;
    }

    /// Counts one more lease of a worker in this lane.
    pub(in crate::machine) fn add_worker_lease(&mut self, lane: Slot, worker: &WorkerName) {
        let workers = &mut self.topics[self.rows[lane].topic].workers;
        match workers.get_mut(worker) {
            Some(leases) => *leases += 1,
            None => drop(workers.insert(worker.clone(), 1)),
        }
    }

    /// Counts one lease less of a worker in this lane.
    pub(in crate::machine) fn remove_worker_lease(&mut self, lane: Slot, worker: &WorkerName) {
        let workers = &mut self.topics[self.rows[lane].topic].workers;
        if let Some(leases) = workers.get_mut(worker) {
            *leases -= 1;
            if *leases == 0 {
                workers.remove(worker);
            }
        }
    }

    /// The workers that hold leases in a topic, sorted by name.
    pub(in crate::machine) fn workers(&self, topic: Slot) -> impl Iterator<Item = &WorkerName> {
        self.topics[topic].workers.keys()
    }

    /// The first claimable message of each lane of a topic.
    pub(in crate::machine) fn heads(&self, topic: Slot) -> impl Iterator<Item = Slot> {
        let lanes = self.topics[topic].ready.values();
        lanes.filter_map(|lane| self.rows[*lane].ready.first().map(|(_, message)| message))
    }
}
