#include "runtime/system/elf_image.h"

#include <elf.h>

#include <cstring>

namespace ligerdsl::runtime {
namespace {

bool is_inside(std::string_view image, uint64_t begin, uint64_t bytes) {
  return begin <= image.size() && bytes <= image.size() - begin;
}

template <class Header>
Header header_at(std::string_view image, uint64_t begin) {
  Header header;
  std::memcpy(&header, image.data() + begin, sizeof header);
  return header;
}

// Returns true if all `count` headers at `begin` are inside the image, and `ends_inside` is true
// for each header.
template <class Header, class Inside>
bool all_inside(std::string_view image, uint64_t begin, uint16_t count, uint16_t bytes,
                Inside ends_inside) {
  if (count == 0) return true;
  if (bytes < sizeof(Header) || !is_inside(image, begin, uint64_t{count} * bytes)) return false;
  for (uint16_t i = 0; i < count; ++i) {
    if (!ends_inside(header_at<Header>(image, begin + uint64_t{i} * bytes))) return false;
  }
  return true;
}

}  // namespace

bool is_cut_short_elf(std::string_view image) {
  if (!image.starts_with(std::string_view(ELFMAG, SELFMAG))) return false;
  if (image.size() < sizeof(Elf64_Ehdr)) return true;
  const auto file = header_at<Elf64_Ehdr>(image, 0);
  if (file.e_ident[EI_CLASS] != ELFCLASS64) return false;
  return !all_inside<Elf64_Shdr>(image, file.e_shoff, file.e_shnum, file.e_shentsize,
                                 [&](const Elf64_Shdr& section) {
                                   return section.sh_type == SHT_NOBITS ||
                                          section.sh_type == SHT_NULL ||
                                          is_inside(image, section.sh_offset, section.sh_size);
                                 }) ||
         !all_inside<Elf64_Phdr>(image, file.e_phoff, file.e_phnum, file.e_phentsize,
                                 [&](const Elf64_Phdr& segment) {
                                   return is_inside(image, segment.p_offset, segment.p_filesz);
                                 });
}

}  // namespace ligerdsl::runtime
