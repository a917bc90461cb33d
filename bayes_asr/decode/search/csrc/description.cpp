// What compiled.py compares with what it knows.

#include "lattice.h"

extern "C" const char *decoder_description() noexcept {
  static const std::string text = Interface()
                                      .Struct<ArcsViewFields>()
                                      .Struct<GraphViewFields>()
                                      .Struct<GrammarViewFields>()
                                      .Struct<HotwordsViewFields>()
                                      .Struct<LabelsViewFields>()
                                      .Struct<OptionsViewFields>()
                                      .Struct<LatticeViewFields>()
                                      .Struct<ChunkViewFields>()
                                      .Struct<PathViewFields>()
                                      .Struct<CompactViewFields>()
                                      .Function(NAMED(decoder_open))
                                      .Function(NAMED(decoder_close))
                                      .Function(NAMED(decoder_advance))
                                      .Function(NAMED(decoder_trace))
                                      .Function(NAMED(decoder_take))
                                      .Function(NAMED(decoder_finish))
                                      .Function(NAMED(decoder_free_lattice))
                                      .Function(NAMED(decoder_best_arcs))
                                      .Function(NAMED(decoder_determinize))
                                      .Function(NAMED(decoder_free_words))
                                      .Function(NAMED(decoder_number_labels))
                                      .Function(NAMED(decoder_free_labels))
                                      .text();
  return text.c_str();
}
