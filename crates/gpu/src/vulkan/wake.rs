//! Wakes tasks when submissions end. Vulkan has no callback, so a thread waits for all tasks of a device.

use super::device::Device;
use std::sync::Arc;
use std::task::Waker;

impl Device {
    /// Wakes a task when a submission has ended, or when the device is lost. Of a task that waits for the
    /// submission already the last waker counts.
    pub(crate) fn wake_after(self: &Arc<Self>, submission: u64, waker: &Waker) {
        let mut waiting = self.sleepers.waiting.lock();
        let is_same = |(number, known): &&mut (u64, Waker)| *number == submission && known.will_wake(waker);
        if waiting.tasks.iter_mut().find(is_same).is_none() {
            waiting.tasks.push((submission, waker.clone()));
        }
        if waiting.has_thread {
            return;
        }
        waiting.has_thread = true;
        drop(waiting);
        let device = self.clone();
        let thread = std::thread::Builder::new().name("lanefs-gpu-wake".to_owned());
        if thread.spawn(move || device.wake_all()).is_err() {
            // No thread is to be had: the tasks ask again.
            let mut waiting = self.sleepers.waiting.lock();
            waiting.has_thread = false;
            let tasks = std::mem::take(&mut waiting.tasks);
            drop(waiting);
            tasks.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Wakes tasks until none waits.
    fn wake_all(self: &Arc<Self>) {
        loop {
            let mut waiting = self.sleepers.waiting.lock();
            let Some(next) = waiting.tasks.iter().map(|(number, _)| *number).min() else {
                waiting.has_thread = false;
                return;
            };
            drop(waiting);
            // Of a device that is lost every submission is over.
            let ended = self.wait(next).map_or(u64::MAX, |()| next);
            let mut waiting = self.sleepers.waiting.lock();
            let done: Vec<_> = waiting.tasks.extract_if(.., |(number, _)| *number <= ended).collect();
            drop(waiting);
            done.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }
}
