#include "core/sharing_modes.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace dsanalyze;

TEST_CASE("names of sharing, partition and scope read back, and what is none of them is refused") {
  for (const JobSharing sharing : {JobSharing::none, JobSharing::coordinated, JobSharing::unified_producer})
    CHECK(parse_job_sharing(job_sharing_name(sharing)) == sharing);
  for (const Producers producers : {Producers::jobs, Producers::coordinator}) CHECK(parse_producers(producers_name(producers)) == producers);
  for (const PartitionMode mode : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality})
    CHECK(parse_partition_mode(partition_mode_name(mode)) == mode);
  for (const StorageScope scope : {StorageScope::server, StorageScope::shared}) CHECK(parse_storage_scope(storage_scope_name(scope)) == scope);
  for (const BalanceFrom from : {BalanceFrom::peers, BalanceFrom::storage}) CHECK(parse_balance_from(balance_from_name(from)) == from);
  CHECK_THROWS_WITH_AS(parse_balance_from("disk"), "found 'disk', expected one of peers, storage", UsageError);
  CHECK_THROWS_WITH_AS(parse_job_sharing("all"), "found 'all', expected one of none, coordinated, unified-producer, dependent", UsageError);
  CHECK_THROWS_WITH_AS(parse_producers("job"), "found 'job', expected one of jobs, coordinator", UsageError);
  CHECK_THROWS_WITH_AS(parse_partition_mode(""), "found '', expected one of none, partitioned, locality", UsageError);
  CHECK_THROWS_WITH_AS(parse_storage_scope("Server"), "found 'Server', expected one of server, shared", UsageError);
}
