#include "dataset_make.hpp"

namespace dsanalyze {

// As /usr/share/doc/lomiri-wallpapers-16.04/copyright (20.04.0-2) says, file by file.
const PhotographSource& photograph_source() {
  static const PhotographSource source{"lomiri-wallpapers-16.04",
                                       "/usr/share/backgrounds",
                                       {
                                           {"Bridge_by_Sander_Klootwijk.jpg", "Sander Klootwijk", "CC-BY-SA-4.0"},
                                           {"Dragonfly_by_Bolly.jpg", "\"Bolly\"", "CC-BY-SA-4.0"},
                                           {"Picture_0B_by_freespace.jpg", "Trevor \"Freespace\"", "CC-BY-4.0"},
                                           {"Picture_1A_by_freespace.jpg", "Trevor \"Freespace\"", "CC-BY-4.0"},
                                           {"Wine_by_Jakkub_Mede.jpg", "Jakub Mede", "CC-BY-4.0"},
                                           {"aitzgorri_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"analogpattern_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"free_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"friends_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"greentock_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"life_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"picosdeeuropa_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"seeding_by_Clements_Engelhardt.jpg", "Clemens Engelhardt", "CC0-1.0"},
                                           {"sunset_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"umang_by_Abhishek_Mudgal.jpg", "Abhishek Mudgal", "CC-BY-4.0"},
                                       }};
  return source;
}

}  // namespace dsanalyze
