//! What a topic has over all of its lanes: counts, first messages, and workers that hold leases.

use super::{Census, Counts, Lane, Lanes, Shard, Slot, WorkerName};

impl Lanes {
    /// Of one slice of a topic, or of all.
    pub(in crate::machine) fn topic_counts(&self, topic: Slot, shard: Option<Shard>) -> Counts {
        let lanes = self.topics[topic].lanes.iter().filter(|(of, _)| shard.is_none_or(|shard| shard == **of));
        lanes.fold(Census::default(), |sum, (_, lane)| sum.plus(self.rows[*lane].census)).counts()
    }

    /// How many messages of a lane are unfinished.
    pub(in crate::machine) fn unfinished(&self, lane: Slot) -> u64 {
        let Lane { census, elsewhere, .. } = &self.rows[lane];
        let Counts { ready, waiting, leased, .. } = census.counts();
        ready + waiting + leased + elsewhere
    }

    /// Says how many more unfinished messages a lane has, if it is known here.
    pub(in crate::machine) fn set_elsewhere(&mut self, lane: Option<Slot>, unfinished: u64) {
        if let Some(lane) = lane {
            self.rows[lane].elsewhere = unfinished;
        }
    }

    /// A worker got one more lease in this lane.
    pub(in crate::machine) fn join_worker(&mut self, lane: Slot, worker: &WorkerName) {
        let workers = &mut self.topics[self.rows[lane].topic].workers;
        match workers.get_mut(worker) {
            Some(leases) => *leases += 1,
            None => drop(workers.insert(worker.clone(), 1)),
        }
    }

    /// A worker has one lease less in this lane.
    pub(in crate::machine) fn leave_worker(&mut self, lane: Slot, worker: &WorkerName) {
        let workers = &mut self.topics[self.rows[lane].topic].workers;
        if let Some(leases) = workers.get_mut(worker) {
            *leases -= 1;
            if *leases == 0 {
                workers.remove(worker);
            }
        }
    }

    /// The workers that hold leases in a topic, by name.
    pub(in crate::machine) fn workers(&self, topic: Slot) -> impl Iterator<Item = &WorkerName> {
        self.topics[topic].workers.keys()
    }

    /// The first claimable message of each lane of a topic.
    pub(in crate::machine) fn heads(&self, topic: Slot) -> impl Iterator<Item = Slot> {
        let lanes = self.topics[topic].ready.values();
        lanes.filter_map(|lane| self.rows[*lane].ready.first().map(|(_, message)| message))
    }
}
