#include "core/sharing_modes.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"

using namespace dsanalyze;

TEST_CASE("names of sharing, partition and scope read back, and what is none of them is refused") {
  for (const JobSharing sharing : {JobSharing::none, JobSharing::coordinated, JobSharing::unified_producer})
    CHECK(parse_job_sharing(job_sharing_name(sharing)) == sharing);
  for (const Producers producers : {Producers::jobs, Producers::coordinator}) CHECK(enum_named<Producers>(producers_name(producers)) == producers);
  for (const PartitionMode mode : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality})
    CHECK(enum_named<PartitionMode>(partition_mode_name(mode)) == mode);
  for (const StorageScope scope : {StorageScope::server, StorageScope::shared}) CHECK(enum_named<StorageScope>(storage_scope_name(scope)) == scope);
  for (const BalanceFrom from : {BalanceFrom::peers, BalanceFrom::storage}) CHECK(enum_named<BalanceFrom>(balance_from_name(from)) == from);
  CHECK_FALSE(enum_named<BalanceFrom>("disk"));
  CHECK_THROWS_WITH_AS(parse_job_sharing("all"), "found 'all', expected one of none, coordinated, unified-producer, dependent", UsageError);
  CHECK_FALSE(enum_named<Producers>("job"));
  CHECK_FALSE(enum_named<PartitionMode>(""));
  CHECK_FALSE(enum_named<StorageScope>("Server"));
}
