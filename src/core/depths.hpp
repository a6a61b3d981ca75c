#pragma once

#include <cstddef>
#include <cstdint>

#include "core/records/settings.hpp"
#include "device.hpp"
#include "order.hpp"

namespace dsanalyze {

// What loaders do, and what simulates them does too; most of it follows from a profile's settings. Pure.

/// Samples that a prep worker takes from the queue at once, at most.
constexpr std::size_t worker_group = 32;
/// How often a waiting thread looks whether it should end, whatever it was told meanwhile.
constexpr double look_up_seconds = 0.25;

/// Batches prepared ahead: at least 2 x accelerators, below which lockstep starves; a deeper queue than that only holds memory.
int prefetch_batches(const ProfileSettings& settings);
/// The same in a program of someone else's, which needs its memory for more: of batches of so many bytes, what 256 MiB have room for, two at least.
int prefetch_batches(const ProfileSettings& settings, double batch_bytes);
/// Batch slots of all jobs of the server together. Coordinated jobs have 2 x jobs + prefetch_batches(), whichever process prepares: what they share
/// is bounded whatever they do. Jobs that share nothing have a loader's each.
std::size_t batch_slots(const ProfileSettings& settings);
/// Processes that fetch and prepare: 1 for all jobs, or each job.
int preparing_processes(const ProfileSettings& settings);
/// Prep workers of each of these processes: its share of the settings' workers, at least one.
int workers_of_each(const ProfileSettings& settings);
/// Reads in flight or waiting for prep at once in one process, at most: each holds a buffer of about a sample's size.
std::size_t fetch_places(const ProfileSettings& settings);
/// Samples that the coordinator of a dependent group fetches and prepares at once: reads in flight, and work for every worker.
std::uint32_t dependent_in_flight(double fetch_concurrency, double workers);
OrderSpec order_spec(const ProfileSettings& settings);
/// The emulated disk of the run's scale.
StorageDeviceSpec storage_device(const ProfileSettings& settings);

}  // namespace dsanalyze
