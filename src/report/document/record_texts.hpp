#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/records/doctor_result.hpp"
#include "core/records/result.hpp"
#include "core/records/simulate_result.hpp"
#include "core/records/whatif_result.hpp"
#include "document.hpp"

namespace dsanalyze::report {

// What a what-if says, in words: the same in every view.

/// "cache 75 %, 48 cores"; "unchanged" where nothing changes.
std::string change_text(const WhatIfChange& change);
/// "locality, balanced from storage": how its servers part the dataset.
std::string partition_text(const WhatIfChange& change);
/// "prep [P]", with " ?" where it is inconclusive. Of "gpu", "cpu" and "io": the second without the letter, the third the letter alone.
std::string binding_text(const WhatIfAnswer& answer);
/// " ?" where the bottleneck is inconclusive, " ~" where the answer is extrapolated far.
std::string reservation_marks(const WhatIfAnswer& answer);
/// The list's name and day, with its age where that is known: "a-list of 2024-01-31, 2.7 years old".
std::string price_list_text(const SearchResult& search);
/// What the profile's full run reached, beside what its rates give, without a full stop; empty where that is not known.
std::string attained_text(const WhatIfResult& result);
/// What "~" means, without a full stop.
std::string far_extrapolated_text();
std::string resource_words(const std::string& bottleneck);
std::string resource_letter(const std::string& bottleneck);
/// Copies to the GPUs are its bottleneck, not what these make of them.
bool is_transfer(const WhatIfAnswer& answer);
/// "prep", "copies to the GPU"; "[P]", "[H]".
std::string binding_words(const WhatIfAnswer& answer);
std::string binding_letter(const WhatIfAnswer& answer);
/// What --find asked, a phrase.
std::string question_text(const std::string& question);
/// What it found. Rounded up where less would not do, so that what is read is enough.
std::string value_text(double value, const std::string& unit);

// What is predicted of a job mix, in words: the same in every view.

/// "nothing", "coordinated", "dependent, store of 10 %, refcnt".
std::string sharing_way_text(const WhatIfJobMix::Answer& answer);
/// File, dataset, P and F, without a full stop.
std::string job_mix_text(const WhatIfJobMix& mix);
/// What the tables' columns mean, without a full stop.
std::string job_mix_notes();

// What an examination says, in words: the same in every view.

/// The gravest first.
inline constexpr std::array doctor_by_weight{DoctorStatus::problem, DoctorStatus::warning, DoctorStatus::note, DoctorStatus::unknown,
                                             DoctorStatus::ok};
/// "1 problem, 2 warnings, 3 notes, 1 not known, 12 fine".
std::string doctor_counts(const DoctorResult& result);
/// Where a command works: "here", "on host", "at start".
std::string_view place_of(DoctorCommand::Where where);
/// Processor, cores, memory, kernel, container.
std::string machine_line(const DoctorResult& result);

// What a simulation says, in words: the same in every view.

/// Samples, bytes, order, jobs, accesses.
std::string dataset_line(const SimulateResult& result);
/// Samples, rounds and draws of a trace of draws.
std::string draws_line(const SimulateResult& result);
/// What the columns of its table mean, without a full stop.
std::string draws_notes();
/// The cache's size over the dataset's.
double share_of(const CacheCase& cache, Bytes dataset_bytes);

// Parts that documents of several kinds of records have.

/// With a capital letter, as sentences and headings begin.
std::string begun(std::string text);
/// All advice, what it rests on, and the steps in a loader of one's own; nothing for none.
void add_advice(const std::vector<AdviceRecord>& advice, Section& section);
/// "note", "warning", "error".
std::string severity_word(Finding::Severity severity);
/// The most severe first.
Section findings_of(const std::vector<Finding>& findings);

}  // namespace dsanalyze::report
